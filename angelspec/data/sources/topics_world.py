"""Chat topics about the world: science, technology, history, society, arts. Same form as in topics_life."""

TEXT = """
# nature and science
rainbows | see where a rainbow comes from
I saw a double rainbow this morning, and the colors of the second one were the other way round.
a rainbow / a halo around the sun

black holes | understand black holes without mathematics
I read that nothing can leave a black hole, and in the next line that black holes can evaporate.
a black hole / a neutron star

the seasons | explain why it is cold in winter
My daughter asked why it is winter here when the Earth is closest to the sun, and I had no answer.
the weather / the climate

tides | know when the water will rise
We were almost cut off by the water on our walk along the beach.
high tide / spring tide

how vaccines work | understand what a vaccine does in the body
My uncle keeps telling me that vaccines weaken the body, and I do not know what to say to him.
a vaccine / a medicine

the human heart | learn what the heart does all day
At the doctor's, I was told that one of my heart valves makes a noise.
an artery / a vein

bees | understand how a hive is organized
A swarm of bees has settled under our roof and I do not want to harm them.
honey bees / wild bees

whales | learn how whales live and talk
On a boat trip we saw a whale jump out of the water again and again.
a whale / a shark

evolution | understand how new species arise
In a discussion somebody said that evolution is only a theory, and everybody nodded.
evolution / breeding

dinosaurs | find out what dinosaurs really looked like
My six-year-old knows forty dinosaurs by name and asks me things that I cannot answer.
a dinosaur / a crocodile

volcanoes | understand why volcanoes erupt
We are going to Sicily on holiday, close to a volcano that smokes all the time.
lava / magma

earthquakes | behave correctly in an earthquake
I have moved to a city where the ground shakes a little every few weeks.
the strength of an earthquake / the damage it does

photosynthesis | understand how plants make food from light
My homework says that trees make oxygen, and I wonder what they do at night.
a leaf / a solar panel

magnets | understand what makes a magnet attract things
My little brother put a magnet on the television, and now he wants to know how it works.
a magnet / an electromagnet

gravity | understand why things fall
I learned at school that a feather and a hammer fall equally fast, but here they clearly do not.
mass / weight

the moon | watch the moon through a month
Last night the moon was red and looked huge above the houses.
a lunar eclipse / a solar eclipse

antibiotics | use antibiotics in the right way
I feel better after three days, and the package says that I have to take the pills for seven.
bacteria / viruses

memory and forgetting | remember names and faces
I forget the names of people in the very moment in which they introduce themselves.
short-term memory / long-term memory

dreams | find out why we dream
I keep dreaming that I have to sit a math exam that I passed twenty years ago.
dreams / daydreams

the water cycle | follow a drop of water around the world
It has not rained here for six weeks, while another region is flooded.
ground water / rain water

migrating birds | understand how birds find their way
The swallows from our barn came back yesterday, on almost the same day as last year.
birds that leave / birds that stay

chemistry in the kitchen | understand what happens in a hot pan
My cake did not rise because I took baking soda instead of baking powder.
baking soda / baking powder

mushrooms | learn to know a few mushrooms
I found a basket full of mushrooms and nobody in the family dares to eat them.
mushrooms / plants

measuring time | understand why a day has twenty-four hours
We change the clocks twice a year, and I never know in which direction.
a sundial / a mechanical clock

# technology
passwords | keep online accounts safe
I use the same password everywhere, and yesterday somebody tried to get into my email.
a password manager / a notebook in a drawer

how the internet works | understand what happens when a page loads
My internet is slow in the evening although I pay for a fast connection.
the internet / the web

artificial intelligence | understand what a language model can do and cannot do
My boss wants us to use artificial intelligence for everything, and I am not sure that this is wise.
a search engine / a chatbot

electric cars | decide whether to buy an electric car
I drive thirty kilometers to work, and my old car will not survive another winter.
an electric car / a hybrid

solar panels | produce electricity on the own roof
My neighbor says that his solar panels have paid for themselves, and my roof faces west.
solar panels / wind turbines

batteries | make the battery of a phone last longer
The battery of my phone is empty at three in the afternoon, and the phone is only two years old.
charging overnight / charging several times a day

recognizing fake news | check whether a story is true
My aunt sends me shocking messages every day, and I suspect that most of them are invented.
a newspaper / a social network

backing up photos | keep family pictures for many years
All pictures of our children are on one old laptop that has begun to make strange noises.
an external disk / cloud storage

learning to program | write a first small program
I am a nurse and would like to learn to program, but I do not know where to begin.
Python / JavaScript

how an airplane flies | understand what keeps an airplane in the air
Every time I sit in a plane I wonder how something so heavy can stay up.
an airplane / a helicopter

bridges | understand why a bridge does not fall down
In our town an old bridge was closed because of cracks, and everybody is angry about the detour.
a suspension bridge / an arch bridge

recycling | sort household waste correctly
I never know into which bin a yogurt cup belongs, and my neighbor watches me.
recycling / using less

# history
ancient Rome | understand why the Roman Empire fell apart
I walked through Rome for two days and kept mixing up the emperors.
the Roman Republic / the Roman Empire

the pyramids of Egypt | imagine how the pyramids were built
In a documentary they said that the pyramids were built by slaves, and our guide said the opposite.
Egypt / Mesopotamia

the Silk Road | follow the old trade routes through Asia
I found an old map with trade routes from China to Venice in my grandfather's desk.
trade by land / trade by sea

the printing press | understand how printing changed the world
I visited a museum where we could print a page by hand, and it took half an hour.
the printing press / the internet

the French Revolution | understand what led to the French Revolution
I have to give a short talk on the French Revolution, and I get lost among all the names.
the French Revolution / the American Revolution

the industrial revolution | learn how machines changed daily life
My great-great-grandmother worked in a cotton mill when she was ten years old.
life on a farm / life in a factory town

the voyage of Magellan | retell the first journey around the world
I am reading about Magellan, who did not even survive his own famous voyage.
Magellan / Columbus

the plague in the Middle Ages | understand how the plague changed Europe
In an old church near us there is a painting of skeletons dancing with a king.
the plague / the flu of 1918

women's right to vote | learn how women won the right to vote
My grandmother told me that her own mother was not allowed to vote as a young woman.
peaceful protest / breaking the law

the race to the moon | retell how people came to the moon
My father remembers watching the landing on the moon on a tiny television with the whole street.
the Soviet program / the American program

the Berlin Wall | explain the Berlin Wall to somebody born later
My students were all born long after the Wall came down and can hardly imagine it.
East Berlin / West Berlin

the samurai | separate legend from fact about the samurai
I love films about samurai, but I suspect that the real ones were quite different.
samurai / knights

the Inca roads | learn how the Inca ruled without writing
On our tour through Peru we walked on a stone road that is five hundred years old.
the Inca / the Aztecs

the invention of money | understand why people accept paper as money
My son asked me why a piece of paper can buy a bicycle, and I could not explain it.
coins / barter

# society and opinion
public transport without tickets | judge whether buses should be free
Our city is thinking about making all buses free, and my neighbors argue about it every day.
free buses / more buses

homework | decide how much homework makes sense
My nine-year-old sits over his homework for two hours every day and often cries.
homework / more time at school

zoos | form an opinion about zoos
My children want to go to the zoo, and I feel bad when I see the lions.
zoos / national parks

a four-day week | judge whether people should work four days
My company offers us a four-day week with the same number of hours.
four long days / five short days

school uniforms | weigh the reasons for and against uniforms
The parents of our school will vote on uniforms next week.
school uniforms / free choice of clothes

tipping in restaurants | know how much to tip
In every country I get strange looks because I tip too much or too little.
tips / higher wages

living in the city or the country | choose a place to live
We could buy a house in a village for the price of our tiny flat in the city.
the city / the country

cash and cards | decide how to pay in daily life
My favorite bakery has stopped taking cash, and my father cannot buy his bread there anymore.
cash / cards

tourism in small towns | find a balance between guests and residents
So many tourists come to our village that we cannot find a parking space in front of our own house.
many short visits / few long stays

volunteering | find a way to help others
I have retired and would like to do something useful two afternoons a week.
giving time / giving money

learning by heart | judge whether learning by heart is useful
My niece has to learn a poem by heart and asks me what it is good for when she has a phone.
learning by heart / looking things up

climate in everyday life | live with less waste and fewer emissions
I want to do something for the climate, but it all seems too small to matter.
flying less / eating less meat

# arts and language
Shakespeare for beginners | read a play by Shakespeare with pleasure
We are reading Macbeth at school, and I do not understand half of the sentences.
a tragedy / a comedy

writing a short poem | write a poem for somebody's birthday
My grandfather turns ninety and wishes for a poem instead of a present.
a poem with rhymes / a poem without rhymes

jazz | find a way into jazz music
A friend gave me a ticket for a jazz concert, and I have only ever listened to pop.
jazz / classical music

painting with watercolors | paint a landscape with watercolors
My watercolors always end up as brown puddles.
watercolors / oil paint

Impressionist painting | look at a painting and understand it
In the museum I stood in front of water lilies for ten minutes and did not know what I was supposed to see.
Monet / Van Gogh

fairy tales | tell a fairy tale to children
My children want a new story every night, and I have run out of fairy tales.
fairy tales / fables

film music | listen to the music of a film
I noticed that I cried at the end of a film only because of the music.
film music / silence

where words come from | find the origin of words
I found out that salary has something to do with salt, and now I want to know more.
Latin words / Germanic words

writing a detective story | invent a crime story with a surprising end
I have begun to write a detective story, but everybody guesses the murderer on page ten.
a clever detective / a clumsy detective

science fiction | invent a believable world of the future
I want to write about a city on Mars, and my friends say that it sounds like a school book.
science fiction / fantasy

chess | play chess without losing at once
My nephew is eight and beats me at chess in ten moves.
chess / checkers

theater and stage fright | step onto a stage without fear
I have a small part in a play at our community center, and I have forgotten my text at every rehearsal.
theater / film

sign language | learn the basics of sign language
A deaf colleague has joined our team, and I would like to talk to her directly.
sign language / writing things down

opera | enjoy a first evening at the opera
My parents gave me tickets for an opera of four hours in a language that I do not speak.
opera / musicals
"""
