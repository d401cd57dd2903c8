"""Chat topics of everyday life, in our own words.

One topic is a block of three lines: `subject | goal` (a noun phrase, and what somebody wants to do, as a bare infinitive),
a situation told in the first person, and `one thing / another` to compare. A line that starts with # names the area.
"""

TEXT = """
# cooking
baking sourdough bread | bake a first loaf of sourdough
My sourdough came out flat and heavy twice in a row, although I followed the recipe.
sourdough starter / dried yeast

cooking for one person | cook for myself without throwing food away
I live alone and half of what I buy goes bad before I can eat it.
cooking fresh every day / cooking one big pot on Sunday

vegetarian dinners | eat less meat during the week
My daughter stopped eating meat last month and I have run out of ideas for dinner.
lentils / tofu

knife skills | chop vegetables quickly and safely
I am slow with a kitchen knife and I cut my thumb again yesterday.
a chef's knife / a small paring knife

packed lunches for school | pack a lunch that a child will really eat
My son brings his lunch box home full every single day.
sandwiches / leftovers from dinner

preserving summer fruit | turn a big harvest of plums into jam
Our plum tree has given us three buckets of fruit and the freezer is already full.
jam / chutney

brewing good coffee | make better coffee at home
I bought an expensive coffee machine, and the coffee still tastes bitter.
a French press / a paper filter

spices from around the world | use spices with more confidence
I have a drawer full of spices, but I only ever use salt, pepper and paprika.
fresh herbs / dried herbs

a dinner party for eight | host a dinner without panic
I invited eight people for Saturday, and one of them cannot eat gluten.
a buffet / a sit-down dinner

eating well on a small budget | feed a family for less money
Food has become so expensive that I have to cut our shopping bill by a third.
shopping at a market / shopping at a discount store

# home and garden
growing tomatoes on a balcony | grow tomatoes in pots
The leaves of my tomato plants are turning yellow, and I water them every evening.
cherry tomatoes / large beefsteak tomatoes

a compost heap | start a compost heap in a small garden
My compost smells terrible and the neighbors have begun to complain.
a compost heap / a worm bin

houseplants in dark rooms | keep plants alive in a flat with little light
Every plant I put in my hallway dies within two months.
ferns / succulents

a tidy wardrobe | sort out too many clothes
My wardrobe is so full that the door does not close, and I still have nothing to wear.
selling old clothes / giving them away

painting a room | paint a bedroom without leaving stains and streaks
I painted my bedroom last weekend, and now you can see every stroke of the roller.
matt paint / glossy paint

saving energy at home | lower the heating bill in winter
Our heating bill doubled this year and I do not know where the warmth goes.
new windows / better insulation of the roof

repairing a dripping tap | stop a tap from dripping
The tap in my bathroom drips all night and I have never repaired anything before.
calling a plumber / doing it yourself

moving to a new flat | move house without chaos
We are moving in three weeks and I have not packed a single box.
a moving company / a rented van and some friends

birds in the garden | bring more birds into the garden
I put up a bird feeder in the autumn, but not one bird has come.
a bird feeder / a hedge with berries

a shared kitchen | keep a shared kitchen clean
My two roommates never wash up, and I am tired of doing it for everybody.
a cleaning rota / a dishwasher

# work
a job interview | prepare for a job interview
I have an interview on Thursday for a job that I really want, and I get nervous when people ask about my weaknesses.
a telephone interview / a meeting in person

asking for a pay rise | ask for more money at work
I have been in my job for three years without a raise, and a new colleague earns more than I do.
a higher salary / more days off

giving feedback to a colleague | criticize somebody's work without hurting them
A colleague hands in reports with many mistakes, and I am the one who has to tell him.
written feedback / a conversation

working from home | stay focused while working from home
Since I work from home, I start at seven in the morning and somehow never stop.
working from home / working in an office

meetings that take too long | run a shorter meeting
We have nine hours of meetings every week, and hardly anything is decided in them.
a weekly meeting / a shared document

a first week in a new job | make a good start in a new job
I begin a new job on Monday and do not know a single person there.
a large company / a small team

changing careers at forty | move into a different profession
I am forty-one, I have taught math for fifteen years, and I would like to become a carpenter.
evening classes / a full apprenticeship

time management | get the important things done first
By the end of the day I have answered sixty emails and done none of my real work.
a to-do list / a calendar with fixed blocks

giving a presentation | speak in front of many people
Next month I have to give a talk to two hundred people, and my hands shake when I only think of it.
speaking freely / reading from notes

starting a small business | open a small bike repair shop
I have saved some money and would like to open a repair shop for bicycles in my town.
a shop of one's own / a stall at the weekly market

a letter of application | write a letter that gets read
I have sent out twenty applications and have not had one answer.
a formal letter / a short personal email

conflict in a team | settle a quarrel between two colleagues
Two people in my team do not speak to each other anymore, and the project is suffering.
talking to both at once / talking to each alone

# family and friends
a newborn in the house | get through the first weeks with a baby
Our baby is five weeks old, sleeps two hours at a time, and we are exhausted.
breastfeeding / bottle feeding

children and screens | agree on screen time with children
My eleven-year-old would spend the whole day on his phone if I let him.
fixed rules / trust and talking

a teenager who does not talk | get into conversation with a teenager
My daughter is fourteen and answers every question with one word.
asking questions / doing something together

caring for old parents | help parents who need more and more support
My mother is eighty-two and forgets to take her pills, but she does not want any help.
care at home / a nursing home

a friendship that has cooled | get back in touch with an old friend
My best friend from school and I have not spoken for four years, and I miss her.
a letter / a phone call

a surprise party | plan a birthday party in secret
My wife turns fifty in June and I want to surprise her, but she notices everything.
a surprise party / a weekend trip for two

making friends in a new city | find friends after moving
I moved here eight months ago, and besides my colleagues I know nobody.
joining a club / meeting people online

a long-distance relationship | stay close over a long distance
My boyfriend got a job abroad for a year, and we only see each other on a screen.
daily messages / one long call a week

pocket money | teach children how to handle money
My son spends his pocket money on the first day and then asks for more.
pocket money every week / money for small jobs

a family budget | keep track of what a household spends
We both earn enough, and yet at the end of the month there is never anything left.
a spreadsheet / envelopes with cash

a wedding speech | write a speech for a wedding
My brother is getting married in two weeks, and I have to give a speech although I am not a funny person.
a funny speech / a touching speech

getting a first dog | choose a dog that fits the family
The children want a dog, but both of us work and our flat has no garden.
a puppy / a grown dog from a shelter

# feelings
homesickness | feel at home in a foreign place
I am studying abroad, and on Sundays I miss my family so much that I cannot work.
visiting home often / staying to settle in

fear of flying | take a plane in spite of the fear
I have to fly to my sister's wedding and I have not been on a plane for ten years.
a long train journey / a short flight

saying no | turn down a request without feeling guilty
People always ask me for favors, and I say yes although I have no time at all.
a clear no / a compromise

grief | comfort somebody who has lost a parent
The father of a close friend died last week, and I am afraid of saying the wrong thing.
a visit / a handwritten card

loneliness | feel less lonely in the evenings
Since my husband died the evenings are long, and the television does not help.
a pet / a choir

procrastination | start with a task that seems too big
I should have begun my thesis two months ago, and I clean the kitchen instead.
small steps / a strict deadline

jealousy | deal with jealousy among friends
My friend got the flat, the job and the prize, and I cannot be happy for her.
admitting it / keeping it to oneself

making a difficult decision | decide between two good offers
I have two job offers and I change my mind every hour.
the head / the gut

forgiving somebody | forgive a person who broke a promise
My sister told others something that I had told her in confidence.
forgiving / forgetting

everyday gratitude | notice the good things of a day
I have everything that I need, and still I am in a bad mood most of the time.
a diary / a talk before bed

# health and sport
falling asleep | sleep better
I lie awake until two every night and have to get up at six.
a warm bath / a walk in the evening

running for beginners | run five kilometers without stopping
I want to start running, but after three minutes I am out of breath.
running / cycling

back pain at the desk | sit and move in a healthier way
After a day at my desk my lower back hurts so much that I cannot sit on the sofa.
a standing desk / exercises

drinking enough water | drink more during the day
I often notice in the evening that I have had two cups of coffee and nothing else.
tea / water

learning to swim as an adult | learn to swim at thirty
I am thirty and I cannot swim, which is becoming embarrassing with my children.
a course / private lessons

yoga and stretching | become more flexible
I cannot touch my toes, and my doctor says that I should stretch.
yoga / stretching after sport

giving up smoking | stop smoking for good
I have stopped smoking five times, and every time I began again at a party.
stopping from one day to the next / smoking less and less

a walk across the mountains | get ready for a hike of several days
In August I want to walk across the Alps with a friend, and I have never carried a heavy pack.
mountain huts / a tent

team sports for shy people | find a sport that is fun
My doctor says I need exercise, but I hated every sport at school.
team sports / sport alone

first aid | know what to do in an accident
Yesterday somebody fainted in the bus next to me, and I did not know what to do.
a course / a book

# travel and leisure
a week in Japan | plan a first trip to Japan
I have ten days in Japan in April and cannot decide between cities and countryside.
Tokyo / Kyoto

traveling by train | cross a continent by train
I would like to go from Lisbon to Warsaw by train and see something on the way.
a night train / a plane

traveling with small children | survive a long drive with two toddlers
We will be in the car for nine hours with a two-year-old and a four-year-old.
driving at night / driving with many breaks

packing light | travel with only one small bag
I always take a big suitcase and then wear the same three things.
a backpack / a suitcase

a weekend by the sea | spend two days at the coast in winter
We want to go to the sea in January, and everybody tells us that we are crazy.
the sea in winter / the sea in summer

taking better photographs | take good pictures with a phone
On my holiday pictures the people are dark and the sky is white.
a phone / a real camera

learning the guitar | play a first song on the guitar
My fingers hurt, and after two months I still cannot change chords fast enough.
lessons / videos on the internet

learning a language as an adult | learn Spanish well enough for a holiday
I have used a language app for a year, and I still cannot order a meal.
an app / an evening course

reading more books | read twenty books in a year
I used to love reading, but now I fall asleep after two pages.
paper books / audiobooks

keeping a diary | write a diary that lasts longer than a week
I have started eleven diaries, and all of them stop in January.
writing by hand / typing
"""
