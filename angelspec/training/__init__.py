"""Training of drafters: packing, anchors, block layout, schedules, optimisers, checkpoints and the trainer itself."""
