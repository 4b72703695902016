"""How people ask for the rewrites. `{this}` stands for the text; no full stop at the end, no question mark."""

from __future__ import annotations

from .phrasings import phrasings

RENAME_PERSON = phrasings("""
Change the name {old} to {new} everywhere in {this}
Rename {old} to {new} in {this}
Replace {old} with {new} in {this}
Let {old} be called {new} in {this}
Rewrite {this} with {new} instead of {old}
Can you change {old} to {new} in {this}
Please replace the name {old} with {new} in {this}
In {this}, change {old} to {new}
Swap the name {old} for {new} in {this}
Rewrite {this} so that {old} is called {new}
Write {this} again, but with the name {new} in place of {old}
Could you rename {old} to {new} in {this}
I want {old} to be called {new} in {this}
Put the name {new} wherever {this} says {old}
Rename {old} in {this}: the new name is {new}
Make {old} into {new} everywhere in {this}
Use {new} instead of {old} in {this}
Exchange the name {old} for {new} throughout {this}
Wherever {old} stands in {this}, write {new}
The person in {this} is called {new}, not {old}; please correct it
Alter the name {old} to {new} in {this}
Turn {old} into {new} all through {this}
Substitute {new} for the name {old} in {this}
Switch the name {old} to {new} throughout {this}
Edit {this}: {old} is {new} from now on
Update the name in {this} from {old} to {new}
Would you change the person's name from {old} to {new} in {this}
I would like {old} renamed to {new} in {this}
Every {old} in {this} should become {new}
Correct the name {old} in {this} to {new}
Give {old} the name {new} in {this}
Convert each mention of {old} in {this} to {new}
Name change in {this}: from {old} to {new}
In {this}, the name {old} has to be replaced by {new}
All mentions of {old} in {this} should read {new}
Go through {this} and change {old} to {new}
Redo {this} with {old} renamed {new}
Would you please swap out {old} for {new} in {this}
Fix the name in {this}; it is {new} and not {old}
Type {new} where {old} stands in {this}
I got the name wrong in {this}: {old} is really {new}
Please see to it that {old} becomes {new} in {this}
Will you put {new} in for {old} in {this}
From start to finish in {this}, {old} should be named {new}
Adjust {this} so that {new} stands where {old} was
Take the name {old} out of {this} and put in {new}
Leave the rest of {this} alone, but call {old} {new}
Please make it {new} rather than {old} in {this}
The name {old} in {this} must be changed to {new}
Rename the person {old} in {this} as {new}
Have {new} take the place of {old} in {this}
""")

RENAME_PLACE = phrasings("""
Change {old} to {new} everywhere in {this}
Replace the town {old} with {new} in {this}
Rewrite {this} with {new} instead of {old}
Let {this} take place in {new}, not in {old}
Please change the place {old} to {new} in {this}
Can you replace {old} with {new} in {this}
Move {this} from {old} to {new} by changing the name of the town
In {this}, the town is {new} and not {old}; please correct it
Rewrite {this} so that {old} becomes {new}
Use {new} as the town instead of {old} in {this}
Write {this} again with the town {new} in place of {old}
Rename the town {old} to {new} in {this}
Wherever {this} says {old}, write {new}
Could you change the town in {this} from {old} to {new}
Swap {old} for {new} in {this}
I need {new} instead of {old} in {this}
Alter the town in {this} from {old} to {new}
Turn every {old} in {this} into {new}
Substitute {new} for {old} as the place in {this}
Switch the town {old} to {new} in {this}
Edit {this} so that the town is {new}, not {old}
Update the place in {this}: it was {old} and is now {new}
Would you change the town of {old} to {new} in {this}
I would like the town {old} in {this} replaced by {new}
Every mention of {old} in {this} should be {new}
Fix the place name in {this}: {new} rather than {old}
Convert {old} to {new} as the place named in {this}
New place for {this}: {new} instead of {old}
The place {old} in {this} has to become {new}
Set {this} in {new}; take {old} out
Redo {this} with {new} as the town where it now has {old}
All of this happens in {new}, so replace {old} in {this}
Go through {this} and make {old} into {new}
Please put {new} as the place wherever {old} stands in {this}
Will you exchange the town {old} for {new} in {this}
Relocate {this}: {old} out, {new} in
Keep everything in {this} except the town: {old} becomes {new}
In {this}, call the town {new} where it is now called {old}
I mixed up the towns in {this}; {old} ought to be {new}
The town in {this} must be called {new} rather than {old}
Name the town {new}, no longer {old}, in {this}
Adjust the place name {old} in {this} to {new}
Would you please write {new} for {old} all through {this}
Please correct the town {old} to {new} throughout {this}
Take {old} out of {this} and name {new} instead
With the place changed from {old} to {new}, write out {this}
""")

RENAME_TWO = phrasings("""
Change {old} to {new} and {old2} to {new2} in {this}
Replace {old} with {new} and {old2} with {new2} in {this}
In {this}, rename {old} to {new} and {old2} to {new2}
Make two changes in {this}: {old} becomes {new}, and {old2} becomes {new2}
Rewrite {this} with {new} instead of {old} and {new2} instead of {old2}
Please change two names in {this}: {old} to {new}, {old2} to {new2}
Can you replace {old} with {new} and {old2} with {new2} in {this}
Use {new} for {old} and {new2} for {old2} in {this}
Rewrite {this} so that {old} is {new} and {old2} is {new2}
Rename two things in {this}: {old} to {new} and {old2} to {new2}
Write {this} again, with {new} in place of {old} and {new2} in place of {old2}
Swap {old} for {new} and {old2} for {new2} in {this}
Put {new} wherever {this} says {old}, and {new2} wherever it says {old2}
Could you change {old} to {new} in {this}, and also {old2} to {new2}
Replace these names in {this}: {old} -> {new}, {old2} -> {new2}
I need {old} changed to {new} and {old2} changed to {new2} in {this}
Alter {old} to {new} and {old2} to {new2} in {this}
Turn {old} into {new} and {old2} into {new2} in {this}
Substitute {new} for {old} and {new2} for {old2} in {this}
Switch two names in {this}: {old} to {new} and {old2} to {new2}
Edit {this}: {old} is now {new}, {old2} is now {new2}
Update both names in {this}, {old} to {new} and {old2} to {new2}
Would you change {old} into {new} and {old2} into {new2} in {this}
I would like {old} to become {new} and {old2} to become {new2} in {this}
Every {old} in {this} should be {new}, and every {old2} should be {new2}
Correct both names in {this}: {new} rather than {old}, {new2} rather than {old2}
Convert {old} to {new}, and {old2} to {new2}, throughout {this}
Two names to change in {this}: {old} = {new}, {old2} = {new2}
The names {old} and {old2} in {this} should be {new} and {new2} instead
In {this}, replace {old} by {new} and also {old2} by {new2}
Redo {this} with {old} renamed {new} and {old2} renamed {new2}
Go through {this} and write {new} for {old} and {new2} for {old2}
Will you rename {old} as {new} and {old2} as {new2} in {this}
Please use {new} where {old} stands and {new2} where {old2} stands in {this}
Exchange {old} for {new} and also {old2} for {new2} all through {this}
Fix two names in {this}: {old} is really {new}, and {old2} is really {new2}
All through {this}, {old} has to be {new} and {old2} has to be {new2}
First replace {old} by {new} in {this}, and after that {old2} by {new2}
Would you please put {new} for {old}, and {new2} for {old2}, in {this}
Take {old} and {old2} out of {this} and use {new} and {new2} in their place
With {old} changed to {new} and {old2} changed to {new2}, write out {this}
I got both names wrong in {this}: {old} should be {new}, {old2} should be {new2}
Keep {this} as it is, but let {old} be {new} and {old2} be {new2}
Adjust the names in {this}: not {old} but {new}, not {old2} but {new2}
Please make {old} into {new}, and {old2} into {new2}, in {this}
Do both at once in {this}: {old} to {new}, {old2} to {new2}
""")

SWAP_NAMES = phrasings("""
Swap the names {old} and {new} in {this}
In {this}, let {old} and {new} change places
Exchange {old} and {new} in {this}
Trade the names {old} and {new} in {this}
Write {new} for {old} and {old} for {new} in {this}
Rewrite {this} with {old} and {new} swapped
Can you swap {old} and {new} in {this}
Replace {old} with {new} and {new} with {old} in {this}
Switch the names {old} and {new} in {this}
Change every {old} to {new} and every {new} to {old} in {this}
Interchange the two names {old} and {new} in {this}
I mixed up {old} and {new} in {this}; please swap them
Turn {old} into {new} and {new} into {old} in {this}
Please exchange the names {old} and {new} in {this}
Let {old} and {new} swap roles in {this}
Flip {old} and {new} around wherever they occur in {this}
Put {old} where {new} is and {new} where {old} is in {this}
Make {old} and {new} swap names in {this}
Switch {old} and {new} around in {this}
Would you exchange {old} with {new} in {this}, and {new} with {old}
I would like {old} and {new} to trade places in {this}
Every {old} in {this} should become {new}, and every {new} should become {old}
The names {old} and {new} are the wrong way round in {this}; fix that
Convert {old} to {new} and at the same time {new} to {old} in {this}
Let {old} and {new} trade names throughout {this}
Redo {this} with {old} and {new} the other way round
Reverse the roles of {old} and {new} in {this}
Edit {this} so that {old} and {new} have changed places
Will you switch {old} with {new} everywhere in {this}
Rename {old} to {new} and {new} to {old} in {this}
In {this}, {old} should be {new} and {new} should be {old}
Use {new} for {old} and {old} for {new} all through {this}
Please let {old} and {new} exchange their names in {this}
Both names in {this} must be swapped: {old} and {new}
Correct {this}: where it says {old} it should be {new}, and the other way round
Substitute {old} and {new} for each other in {this}
Could you turn {old} and {new} around in {this}, each for the other
Go through {this} and swap each {old} with {new} and each {new} with {old}
I confused {old} with {new} in {this}, so exchange the two
Alter {this} so that {old} does what {new} did and {new} what {old} did
Swap over {old} and {new} wherever they stand in {this}
The two people in {this}, {old} and {new}, should swap places
Please write {old} for {new} and the reverse, {new} for {old}, in {this}
Mutual swap in {this}: {old} and {new}
With {old} and {new} exchanged, write out {this}
""")

REPLACE_WORD = phrasings("""
Replace the word "{old}" with "{new}" in {this}
Change "{old}" to "{new}" in {this}
Change {old} to {new} in {this}
Put the word {new} in place of {old} in {this}
Write {new} instead of {old} in {this}
Use the word "{new}" instead of "{old}" in {this}
Swap the word {old} for {new} in {this}
Replace every {old} with {new} in {this}
Exchange {old} for {new} in {this}
Can you replace "{old}" with "{new}" in {this}
Exchange the word "{old}" for "{new}" everywhere in {this}
In {this}, write "{new}" wherever it says "{old}"
Rewrite {this} with {new} instead of {old}
Please change the word {old} to {new} everywhere in {this}
Could you swap "{old}" for "{new}" in {this}
Rewrite {this} and replace {old} by {new}
Find "{old}" in {this} and replace it with "{new}"
Swap every "{old}" in {this} for "{new}"
Alter the word "{old}" to "{new}" in {this}
Turn every "{old}" into "{new}" in {this}
Substitute "{new}" for "{old}" in {this}
Switch the word {old} to {new} in {this}
Edit {this} so that "{old}" reads "{new}"
Update the wording of {this}: "{new}" rather than "{old}"
Would you write {new} where it says {old} in {this}
I would like the word "{old}" in {this} to be "{new}"
Every "{old}" in {this} should be "{new}" instead
The word {old} in {this} should be replaced by {new}
Convert the word {old} to {new} throughout {this}
Word change in {this}: "{old}" becomes "{new}"
All uses of "{old}" in {this} must become "{new}"
Go through {this} and write {new} for {old}
Redo {this} with "{new}" where "{old}" was
Would you please substitute {new} for the word {old} in {this}
Fix a word in {this}: it should be "{new}", not "{old}"
Take out the word {old} in {this} and put in {new}
In {this}, the word "{old}" has to give way to "{new}"
I meant {new} when I wrote {old} in {this}; please change it
Wherever the word {old} comes up in {this}, use {new}
Let "{new}" stand for "{old}" in {this}
Will you make it {new} instead of {old} in {this}
Keep {this} the same, only say {new} where it now says {old}
Please type "{new}" in place of each "{old}" in {this}
Adjust {this}: the word is {new}, no longer {old}
With "{old}" replaced by "{new}", write out {this}
Do a find and replace in {this}: find {old}, put {new}
Correct the word "{old}" to "{new}" all through {this}
Please have {this} say {new} rather than {old}
""")

CHANGE_VALUE = phrasings("""
Change {old} to {new} in {this}
Replace {old} with {new} in {this}
Change the {label} in {this} from {old} to {new}
Correct the {label} in {this}: not {old} but {new}
In {this}, change the {label} {old} to {new}
The {label} in {this} should be {new}, not {old}
Please write {new} instead of {old} in {this}
Can you change {old} to {new} in {this}
Update {this}: {new} instead of {old}
Fix the {label} in {this}; it says {old}, but it must be {new}
Put {new} where {this} has {old}
Rewrite {this} with {new} in place of {old}
I made a mistake in {this}: {old} must be {new}
Swap {old} for {new} in {this}
Could you correct {old} to {new} in {this}
Write {this} again with the {label} {new} instead of {old}
Alter {old} to {new} in {this}
Turn {old} into {new} in {this}
Substitute {new} for the {label} {old} in {this}
Switch the {label} {old} to {new} in {this}
Edit {this}: {old} is wrong and {new} is right
Adjust the {label} in {this} from {old} to {new}
Would you change the {label} {old} to {new} in {this}
I would like the {label} in {this} to be {new} rather than {old}
Make it {new} instead of {old} in {this}
Exchange {old} for the {label} {new} in {this}
The {label} {old} in {this} must be changed to {new}
Small correction to {this}: {old} becomes {new}
Where {this} should say {new}, it now says {old}; please mend that
Type {new} over {old} in {this}
Redo {this} with {new} as the {label} where it was {old}
Would you please replace the {label} {old} by {new} in {this}
Use the {label} {new} in {this} rather than {old}
The {label} has moved from {old} to {new}; update {this}
Take {old} out of {this} and put {new} there
Convert the {label} {old} in {this} to {new}
Wrong {label} in {this}: {old} ought to be {new}
Will you make the {label} {new}, not {old}, in {this}
Find {old} in {this} and write {new} there
Keep {this} as it is, but with {new} for {old}
In {this}, the {label} {old} is out of date; make it {new}
It is no longer {old} but {new}, so edit {this}
With the {label} corrected from {old} to {new}, write out {this}
Please set the {label} in {this} to {new} where it now is {old}
Only one thing changes in {this}: {old} is now {new}
Please alter the {label} from {old} to {new} throughout {this}
""")

UPDATE_VALUE = phrasings("""
Change the {label} in {this} to {new}
The {label} is now {new}; update {this}
Set the {label} in {this} to {new}
Give {this} a new {label}: {new}
Update the {label} in {this} to {new}
Rewrite {this} with the {label} {new}
The {label} has changed to {new}, so please correct {this}
Please put {new} as the {label} in {this}
Can you change the {label} in {this} to {new}
Correct the {label} in {this}, it must be {new}
Write {this} again with {new} as the new {label}
Replace the {label} in {this} with {new}
Use {new} as the {label} in {this}
Make {new} the {label} in {this}
I need the {label} in {this} changed to {new}
The {label} in {this} is wrong; it should be {new}
Alter the {label} in {this} to {new}
Turn the {label} in {this} into {new}
Switch the {label} in {this} to {new}
Put in {new} as the {label} in {this}
Edit the {label} in {this} so that it reads {new}
Adjust the {label} in {this} to {new}
Would you set the {label} in {this} to {new}
I would like the {label} in {this} to be {new}
New {label} for {this}: {new}
Let the {label} in {this} be {new}
Fix the {label} in {this}: {new} is right
The {label} should read {new}; please rewrite {this}
Substitute {new} for the {label} in {this}
Change {this} so that the {label} is {new}
The {label} that {this} should have is {new}
Could you make the {label} {new} in {this}
In {this}, the {label} must now be {new}
We have a different {label}, {new}; please put it in {this}
Redo {this} with {new} for the {label}
Will you correct the {label} in {this} to {new}
Type {new} where the {label} stands in {this}
Take the {label} out of {this} and write {new} in its place
Please exchange the {label} in {this} for {new}
From now on the {label} is {new}, so change {this}
Convert the {label} in {this} to {new}
Everything in {this} stays, only the {label} becomes {new}
The right {label} is {new}; please mend {this}
Would you please update {this}, as the {label} is {new} now
Have {this} show {new} as the {label}
I was told that the {label} is {new}; change it in {this}
""")

UPPER = phrasings("""
Write {this} in capital letters
Put {this} in upper case
Change {this} to all caps
Set {this} in capitals only
Make {this} upper case
Rewrite {this} in uppercase letters
Can you write {this} in capitals
Turn every letter of {this} into a capital
Convert {this} to uppercase
Please put {this} in block capitals
Give me {this} with every letter as a capital letter
Write {this} all in capitals
Make all letters in {this} big
SHOUT {this}: all letters in upper case
Change every small letter in {this} to a capital letter
Could you convert {this} to capital letters
Turn {this} into capitals
Uppercase {this}
Switch {this} to upper case
Capitalise every letter of {this}
Would you put {this} in capital letters
I would like {this} in all capitals
Every letter in {this} should be a capital
All letters of {this} in upper case, please
Redo {this} in capital letters
Use only capital letters for {this}
Type {this} with caps lock on
The whole of {this} should be in capitals
Replace the small letters in {this} with capitals
Swap all lower-case letters in {this} for upper-case ones
Edit {this} so that it is in capital letters throughout
No small letters in {this}: make them all capitals
Will you turn {this} into uppercase
Raise all the letters of {this} to upper case
Copy {this}, but in capital letters
I need {this} in block letters, all capitals
Print {this} in big letters, capitals throughout
Let all of {this} be in upper case
Show me {this} in full capitals
Would you please uppercase all of {this}
Make capitals of all the letters in {this}
All caps for {this}
With capitals only, write out {this}
Please switch every letter of {this} to upper case
Update {this} to be all uppercase
Repeat {this} in capitals
""")

LOWER = phrasings("""
Write {this} in small letters
Put {this} in lower case
Change {this} to lowercase
Set {this} in small letters only
Make {this} all lower case
Rewrite {this} in lowercase letters
Can you write {this} without any capital letters
Turn every capital letter in {this} into a small one
Convert {this} to lower case
Please write {this} with small letters only
Give me {this} in all lower case letters
Write {this} with no capitals
Make every letter in {this} small
Change all capitals in {this} to small letters
Could you convert {this} to lowercase
I want {this} in small letters
Turn {this} into small letters
Lowercase {this}
Switch {this} to lower case
Remove all capitals from {this} by making them small letters
Would you put {this} in small letters
I would like {this} in all lowercase
Every letter in {this} should be small
All letters of {this} in lower case, please
Redo {this} in small letters
Use only small letters for {this}
Type {this} without the shift key, all in small letters
The whole of {this} should be in lower case
Replace the capitals in {this} with small letters
Swap all upper-case letters in {this} for lower-case ones
Edit {this} so that no letter is a capital
No capitals in {this}: make them all small letters
Will you turn {this} into lowercase
Bring all the letters of {this} down to lower case
Copy {this}, but in small letters
I need {this} in lower-case letters throughout
Print {this} in little letters, without capitals
Let all of {this} be in lower case
Show me {this} with every capital made small
Would you please lowercase all of {this}
Make small letters of all the capitals in {this}
All lowercase for {this}
With small letters only, write out {this}
Please switch every capital in {this} to lower case
Update {this} to be all lowercase
Repeat {this} in small letters
""")

TITLE = phrasings("""
Write every word of {this} with a capital letter first
Put {this} in title case
Capitalise the first letter of every word in {this}
Give every word in {this} a capital at its start
Start each word of {this} with a capital letter
Change {this} to title case
Can you capitalise each word in {this}
Rewrite {this} with a capital letter at the start of every word
Make the first letter of each word in {this} a capital
Please put every word of {this} in title case
Let each word in {this} begin with a capital
Convert {this} to title case
Capitalize every word in {this}
Set {this} in title case, so that each word starts with a capital
Could you start every word in {this} with a capital
Turn {this} into title case
Use title case for {this}
Switch {this} to title case
Begin every word of {this} with an upper-case letter
Would you capitalise the start of each word in {this}
I would like every word in {this} to start with a capital
Every word in {this} should begin with a capital letter
The first letter of every word in {this} must be upper case
Redo {this} in title case
Raise the first letter of each word in {this} to upper case
Format {this} like a title, with a capital at the start of every word
Write {this} with Each Word Capitalised Like This
Edit {this} so that all words start with capitals
Uppercase the first letter of every word in {this}
Will you put {this} in title case
All words in {this} need a capital as their first letter
In {this}, make every word start with a big letter
Capital first letters for all the words of {this}
Type {this} with each word capitalised
Replace the first letter of each word in {this} with its capital
Would you please convert {this} into title case
Copy {this}, but start every word with a capital letter
Open every word of {this} with a capital
I need {this} in title case
Adjust {this} to title case: a capital for each first letter
Have all the words in {this} begin with capital letters
Style {this} as a headline, every word with a capital first
Please give me {this} with every word capitalised
Treat {this} as a title and capitalise each word
With a capital at the front of each word, write out {this}
""")

REPEAT = phrasings("""
Repeat {this} exactly
Copy {this} word for word
Write {this} again without any change
Give {this} back to me exactly as it stands
Say {this} again, exactly as it is
Repeat {this}
Can you repeat {this} exactly
Copy {this}
Write down {this} once more, just as it is
Please repeat {this} word for word
Echo {this} and leave every word as it is
Type {this} out again
Reproduce {this} exactly
Return {this} as it is
Quote {this} in full, with nothing added
Could you copy {this} for me, letter for letter
I need an exact copy of {this}
Print {this} unchanged
Reply with {this} and nothing else
Duplicate {this}
Write out {this} exactly as given
Send back {this} without changing a thing
Would you repeat {this} for me
I would like to see {this} again, word for word
Every word of {this} should be copied exactly
Show {this} once more without edits
Make a copy of {this}
Put {this} down again just as it was
Will you say {this} back to me
Just copy {this}, do not change it
Keep {this} as it is and write it again
No changes to {this}, just repeat it
All I need is {this} repeated
Let me read {this} again, unaltered
Recite {this} word by word
Would you please write {this} out once more
Copy out {this} in full
Output {this} verbatim
Leave {this} untouched and write it out
Please copy {this} without any changes
Rewrite {this} without altering anything
Do nothing to {this}, only copy it
The same again, please: write {this} as it is
Can you give me {this} again, the very same words
Repeat back {this}, letter by letter
I want {this} back exactly as I wrote it
Transcribe {this} faithfully
I need {this} again with no changes at all
""")

REVERSE = phrasings("""
Reverse the order of the {unit}s in {this}
Put the {unit}s of {this} in reverse order
Turn {this} around, so that the last {unit} comes first
Flip {this} upside down, last {unit} on top
Write the {unit}s of {this} from last to first
Order the {unit}s of {this} backwards
Can you reverse the {unit}s of {this}
List the {unit}s of {this} in the opposite order
Reverse {this}, line by line
Please write {this} with the {unit}s in reverse order
Give the {unit}s of {this} back to front
Reverse {this}: start with its last {unit} and end with its first
Rewrite {this} from the bottom {unit} to the top {unit}
Could you put the {unit}s in {this} in reverse
Invert the order of the {unit}s in {this}
Turn the order of the {unit}s in {this} around
Arrange the {unit}s of {this} from the last to the first
Sort {this} backwards, the last {unit} first
Switch the order of {this} so that the last {unit} is at the top
Would you reverse the order of the {unit}s of {this}
I would like the {unit}s of {this} in reverse
Every {unit} of {this} should come in reverse order, the last one first
The {unit}s of {this} should run from bottom to top
Redo {this} with the {unit}s the other way round
Rearrange {this} so that the {unit}s are in reverse order
Let the last {unit} of {this} come first and the first {unit} come last
Change the order of the {unit}s in {this} to the exact opposite
Write out {this} starting from the last {unit}
Will you put {this} backwards, {unit} by {unit}
Show the {unit}s of {this} in reverse
Begin with the final {unit} of {this} and work back to the first
Copy {this} with all {unit}s in reversed order
In {this}, put the last {unit} first, the one before it second, and so on
Backwards, please: the {unit}s of {this} from end to start
Read {this} from the end and write the {unit}s in that order
Make the first {unit} of {this} the last and the last {unit} the first, all in reverse
Would you please order the {unit}s in {this} from last to first
Reorder {this}: last {unit} first, first {unit} last
All {unit}s of {this} in the reverse order
Edit {this} so that its {unit}s go from the end to the beginning
Repeat {this} in reverse {unit} order
I need the {unit}s of {this} reversed
Please turn {this} around, {unit} by {unit}
Reverse the sequence of {unit}s in {this}
With the {unit} order reversed, write out {this}
""")

SORT = phrasings("""
Sort {this} alphabetically
Put {this} in alphabetical order
Sort the lines of {this} from A to Z
Arrange {this} by the alphabet
Order {this} alphabetically
Can you sort {this} by letter, A first
Alphabetise {this}
Put the lines of {this} in alphabetical order
Sort {this} in ABC order
Please sort {this} from A to Z
Bring {this} into alphabetical order
Rewrite {this} in alphabetical order
Could you arrange the lines of {this} alphabetically
Order the lines of {this} from A to Z
I need {this} sorted alphabetically
Sort the lines of {this} by their first letter
Alphabetize the lines of {this}
Put {this} in order from A to Z
Order the entries of {this} alphabetically
Would you sort {this} alphabetically
I would like {this} in alphabetical order
Every line of {this} should be in its alphabetical place
The lines of {this} should go from A to Z
Redo {this} in order of the alphabet
Rearrange {this} so that the lines are in alphabetical order
List the lines of {this} alphabetically
Will you put {this} in ABC order
Line up the entries of {this} from A to Z
Reorder {this} alphabetically
Use alphabetical order for the lines of {this}
Show {this} sorted from A to Z
Change the order of {this} to alphabetical
All lines of {this} in alphabetical order, please
Sort {this}, starting with the letter that comes first in the alphabet
Turn {this} into an alphabetical list
Would you please order {this} from A to Z
Make {this} alphabetical
Copy {this} with the lines sorted by letter
Edit {this} so that it runs from A to Z
Please arrange the entries of {this} alphabetically
Alphabetical order for {this}
Let the lines of {this} follow the alphabet
Organise {this} alphabetically
I want the lines of {this} sorted by the alphabet
With the lines sorted from A to Z, write out {this}
""")

REMOVE_NTH = phrasings("""
Remove the {which} {unit} of {this}
Delete the {which} {unit} from {this}
Take out the {which} {unit} of {this}
Drop the {which} {unit} from {this}
Write {this} without the {which} {unit}
Leave out the {which} {unit} of {this}
Can you remove the {which} {unit} from {this}
Cut the {which} {unit} from {this}
Erase the {which} {unit} of {this}
Please delete the {which} {unit} of {this}
Strike the {which} {unit} from {this}
Rewrite {this} but skip the {which} {unit}
Could you take the {which} {unit} out of {this}
I do not need the {which} {unit} of {this}; remove it
Give me {this} minus the {which} {unit}
Get rid of the {which} {unit} of {this}
Omit the {which} {unit} of {this}
Remove from {this} the {which} {unit}
Skip the {which} {unit} when you copy {this}
Would you delete the {which} {unit} from {this}
I would like the {which} {unit} removed from {this}
Every {unit} of {this} may stay except the {which} one
The {which} {unit} of {this} should go
Redo {this} and leave the {which} {unit} out
Scrap the {which} {unit} of {this}
Edit {this}: the {which} {unit} goes, the others stay
Keep all of {this} except the {which} {unit}
Eliminate the {which} {unit} from {this}
Throw out the {which} {unit} of {this}
In {this}, delete the {which} {unit} and nothing else
Will you cut out the {which} {unit} of {this}
Copy {this}, but not the {which} {unit}
The {which} {unit} is not needed; delete it from {this}
Would you please remove the {which} {unit} in {this}
All of {this} but the {which} {unit}, please
Discard the {which} {unit} of {this} and keep the others
Shorten {this} by its {which} {unit}
Pull out the {which} {unit} in {this}
Repeat {this} with the {which} {unit} left out
I want the {which} {unit} of {this} gone
Let the {which} {unit} of {this} disappear
With the {which} {unit} taken out, write {this} again
Please have the {which} {unit} deleted from {this}
Trim {this} by taking off its {which} {unit}
From {this}, take away the {which} {unit}
""")

REMOVE_WITH_WORD = phrasings("""
Remove the {unit} with the word "{word}" from {this}
Delete the {unit} that has the word "{word}" in {this}
Take out the {unit} of {this} that contains "{word}"
Drop the {unit} with "{word}" from {this}
Write {this} without the {unit} that mentions "{word}"
Leave out the {unit} with the word "{word}" in {this}
Can you delete the {unit} with "{word}" from {this}
Cut the {unit} that contains the word {word} from {this}
Remove the {unit} of {this} in which "{word}" appears
Please remove the {unit} about "{word}" from {this}
Strike out the {unit} of {this} that contains the word "{word}"
Rewrite {this} but skip the {unit} with the word {word}
One {unit} of {this} has the word "{word}"; delete it
Could you remove the {unit} with "{word}" from {this}
Erase the {unit} that says "{word}" from {this}
Get rid of the {unit} with "{word}" in {this}
Omit from {this} the {unit} that has "{word}" in it
Find the {unit} with the word "{word}" in {this} and delete it
Skip the {unit} that mentions "{word}" when you copy {this}
Would you delete the {unit} containing "{word}" from {this}
I would like the {unit} with the word "{word}" removed from {this}
Every {unit} of {this} may stay except the one with "{word}"
The {unit} with "{word}" in it should go from {this}
Redo {this} and leave out the {unit} where "{word}" occurs
Scrap the {unit} of {this} that uses the word "{word}"
Edit {this}: the {unit} with "{word}" goes, the others stay
Keep all of {this} except the {unit} with the word "{word}"
Eliminate the {unit} containing "{word}" from {this}
Throw out the {unit} of {this} that has the word {word}
In {this}, delete the {unit} in which the word "{word}" occurs
Will you cut out the {unit} with the word "{word}" in {this}
Copy {this}, but not the {unit} containing "{word}"
The {unit} that says "{word}" is not needed; remove it from {this}
Would you please take the {unit} with "{word}" out of {this}
All of {this} but the {unit} with "{word}", please
Discard the {unit} that includes "{word}" from {this}
Look for the word "{word}" in {this} and remove the whole {unit}
Pull out the {unit} of {this} where "{word}" is mentioned
Repeat {this} with the {unit} about "{word}" left out
I want the {unit} containing the word "{word}" gone from {this}
Let the {unit} with "{word}" disappear from {this}
With the {unit} that mentions "{word}" taken out, write {this} again
Please have the {unit} containing "{word}" deleted from {this}
From {this}, take away the {unit} that has "{word}" in it
I do not need the {unit} with "{word}" in {this}; delete it
""")

KEEP_FIRST = phrasings("""
Keep only the first {count} {unit} of {this}
Give me the first {count} {unit} of {this}
Write only the first {count} {unit} of {this}
Shorten {this} to the first {count} {unit}
Cut {this} after the first {count} {unit}
Repeat just the first {count} {unit} of {this}
Can you give me only the first {count} {unit} of {this}
Copy the first {count} {unit} of {this}
Show me the first {count} {unit} of {this} and no more
Remove all but the first {count} {unit} of {this}
Quote the first {count} {unit} of {this} and leave the rest out
Delete everything in {this} after the first {count} {unit}
Please keep the first {count} {unit} of {this} and drop the rest
Take the first {count} {unit} of {this} only
I need only the first {count} {unit} of {this}
Keep the first {count} {unit} of {this} and delete everything else
Just the first {count} {unit} of {this}, please
Reduce {this} to its first {count} {unit}
Trim {this} so that only the first {count} {unit} are left
Would you keep only the first {count} {unit} of {this}
I would like just the first {count} {unit} of {this}
Everything after the first {count} {unit} of {this} should go
The first {count} {unit} of {this} are enough; leave out the others
Stop after the first {count} {unit} of {this}
Return the first {count} {unit} of {this}, without the rest
Redo {this} with nothing but the first {count} {unit}
Drop what comes after the first {count} {unit} in {this}
Echo the first {count} {unit} of {this} alone
Will you cut {this} down to the first {count} {unit}
Only the first {count} {unit} of {this} should stay
Pick out the first {count} {unit} of {this}
Limit {this} to the first {count} {unit}
Leave just the first {count} {unit} of {this} standing
Edit {this}: the first {count} {unit} stay, all the others go
From {this}, copy no more than the first {count} {unit}
Would you please give me {this} up to and including the first {count} {unit}
Print the first {count} {unit} of {this} and nothing further
Could you remove all of {this} beyond the first {count} {unit}
Make {this} shorter: the first {count} {unit} only
I want to see the first {count} {unit} of {this}, not the rest
Extract the first {count} {unit} from {this}
Start at the top of {this} and copy {count} {unit}
The first {count} {unit} of {this} are all that I need
Strike all {unit} of {this} that follow the first {count}
Please type out the opening {count} {unit} of {this} alone
""")

SWAP_UNITS = phrasings("""
Swap the {left} and the {right} line of {this}
Exchange the {left} line and the {right} line in {this}
Let the {left} and the {right} line of {this} change places
Trade the places of the {left} and the {right} line in {this}
Put the {left} line of {this} where the {right} line is, and the other way round
Switch the {left} and the {right} line of {this}
Can you swap the {left} and the {right} line in {this}
Interchange the {left} and {right} lines of {this}
Rewrite {this} with the {left} and the {right} line swapped
Please exchange the {left} and the {right} line of {this}
Swap lines in {this}: the {left} one and the {right} one trade places
Could you switch the {left} line with the {right} line in {this}
I want the {left} and the {right} line of {this} swapped
Swap the {left} line with the {right} line in {this}
Change the order in {this}: the {left} and the {right} line swap
Flip the {left} and the {right} line of {this}
Put the {left} line of {this} in the place of the {right} one, and the {right} in the place of the {left}
Make the {left} and the {right} line of {this} change positions
Reorder {this} by swapping the {left} line and the {right} line
Would you switch the {left} and {right} lines of {this}
I would like the {left} and the {right} line of {this} to change places
In {this}, swap line positions: the {left} with the {right}
The {left} and the {right} line of {this} should be swapped
Redo {this} with the {left} and {right} lines exchanged
Rearrange {this}: the {right} line goes where the {left} is, and the {left} where the {right} is
Edit {this} so that the {left} line and the {right} line have changed places
Will you swap over the {left} and {right} lines in {this}
Move the {left} line of {this} to the place of the {right} line, and the {right} to that of the {left}
Let the {left} line of {this} swap with the {right} line
Exchange two lines of {this}, the {left} and the {right}
Keep the other lines of {this} and swap the {left} with the {right}
Would you please exchange the {left} with the {right} line of {this}
Turn around the {left} and the {right} line of {this}, each into the other's place
All lines of {this} stay but the {left} and the {right}, which swap
I mixed up the {left} and the {right} line of {this}; swap them back
Substitute the {left} and the {right} line of {this} for each other
Copy {this}, but switch its {left} and {right} lines
Have the {left} and the {right} line in {this} trade positions
The {left} line of {this} belongs where the {right} is, and the {right} where the {left} is
Please put the {left} and {right} lines of {this} in each other's place
Line swap in {this}: {left} and {right}
Could you let the {left} and {right} lines of {this} trade places
With the {left} and the {right} line switched, write out {this}
Two lines of {this} are in the wrong place: swap the {left} and the {right}
Change {this} by exchanging its {left} and its {right} line
""")

MOVE_LAST_UP = phrasings("""
Move the last line of {this} to the top
Put the last line of {this} first
Take the last line of {this} and place it at the top
Shift the last line of {this} up to the first place
Bring the last line of {this} to the front
Let {this} begin with its last line and keep the rest in order
Can you move the last line of {this} to the beginning
Write the last line of {this} first and leave the others in order
Place the final line of {this} at the start
Please move the last line of {this} to the top
Carry the last line of {this} to the very top and leave the rest as it is
Move the bottom line of {this} to the top
The last line of {this} should come first; keep the order of the others
Could you put the last line of {this} at the top
Rewrite {this} with the last line moved to the top
Make the last line of {this} the first one
Start {this} with its last line and leave the rest in order
Put what is now the last line of {this} at the top
Lift the last line of {this} to the top
Would you move the last line of {this} to the top
I would like the last line of {this} to come first
In {this}, the last line should move to the top
The bottom line of {this} belongs at the top
Redo {this} with the last line in first place
Rearrange {this}: last line to the top, all the others below it in order
Edit {this} so that its last line comes first
Will you bring the last line of {this} up to the top
Pull the final line of {this} up to the beginning
Cut the last line of {this} and paste it at the top
Would you please place the last line of {this} first
Open {this} with what is now its last line, then the others as they are
Have the last line of {this} stand at the very beginning
From the bottom of {this}, move one line to the top
Copy {this}, but with the last line at the start
Let the final line of {this} go to the top
Transfer the last line of {this} to the beginning
Reorder {this} so that the last line leads and the others follow as before
Could you let the last line of {this} come first
The final line of {this} must become the opening line
Please start with the last line of {this} and go on with the first
Send the last line of {this} to the top
I want the bottom line of {this} to be the first line
Change the order of {this}: the last line goes to the top, the others stay in order
Insert the last line of {this} before the first, and take it away from the bottom
With its last line moved to the front, write out {this}
""")

ADD_FIRST = phrasings("""
Add the {unit} "{new}" at the beginning of {this}
Put "{new}" at the start of {this} as a new {unit}
Begin {this} with the {unit} "{new}"
Place the {unit} "{new}" in front of {this}
Insert "{new}" as the first {unit} of {this}
Start {this} with "{new}"
Can you add "{new}" as the first {unit} of {this}
Write the {unit} "{new}" before the rest of {this}
Make "{new}" the first {unit} of {this}
Please put the {unit} "{new}" at the top of {this}
Open {this} with the new {unit} "{new}"
Add a first {unit} to {this}: "{new}"
Let {this} begin with "{new}"
Could you insert the {unit} "{new}" at the start of {this}
Prepend the {unit} "{new}" to {this}
Add "{new}" as the opening {unit} of {this}
Put the {unit} "{new}" before the first {unit} of {this}
Make {this} start with the {unit} "{new}"
Write "{new}" at the top of {this} as its first {unit}
Would you put "{new}" at the beginning of {this}
I would like {this} to begin with the {unit} "{new}"
In {this}, insert the {unit} "{new}" before all the others
The first {unit} of {this} should be "{new}"; add it
Redo {this} with "{new}" as an extra first {unit}
Introduce {this} with the {unit} "{new}"
Edit {this} so that it starts with the {unit} "{new}"
Will you add the {unit} "{new}" at the top of {this}
Slip the {unit} "{new}" in at the very start of {this}
Lead {this} off with the {unit} "{new}"
Would you please begin {this} with "{new}"
A new {unit} for the start of {this}: "{new}"
Have {this} begin with a new {unit}, "{new}"
Include "{new}" at the beginning of {this}, as its first {unit}
Copy {this}, but with "{new}" as a new first {unit}
Insert one {unit} at the top of {this}: "{new}"
Prefix {this} with the {unit} "{new}"
Extend {this} at the front by the {unit} "{new}"
Could you let {this} start with the {unit} "{new}"
There should be one more {unit} at the start of {this}: "{new}"
Please insert "{new}" before the first {unit} of {this}
Say "{new}" first, as a {unit} of its own, and then all of {this}
I want "{new}" to be the first {unit} of {this}
Update {this} with a new opening {unit}: "{new}"
Stick the {unit} "{new}" on the front of {this}
With "{new}" added as the first {unit}, write out {this}
""")

ADD_LAST = phrasings("""
Add the {unit} "{new}" at the end of {this}
Put "{new}" at the end of {this} as a new {unit}
End {this} with the {unit} "{new}"
Attach the {unit} "{new}" to the end of {this}
Append "{new}" to {this} as the last {unit}
Finish {this} with "{new}"
Can you add "{new}" as the last {unit} of {this}
Write the {unit} "{new}" after the rest of {this}
Make "{new}" the last {unit} of {this}
Please put the {unit} "{new}" at the end of {this}
Close {this} with the new {unit} "{new}"
Add one more {unit} to {this}: "{new}"
Let {this} end with "{new}"
Could you add the {unit} "{new}" at the bottom of {this}
Extend {this} by the {unit} "{new}"
Add "{new}" as the closing {unit} of {this}
Put the {unit} "{new}" after the last {unit} of {this}
Make {this} end with the {unit} "{new}"
Write "{new}" at the bottom of {this} as its last {unit}
Would you put "{new}" at the end of {this}
I would like {this} to end with the {unit} "{new}"
In {this}, insert the {unit} "{new}" after all the others
The last {unit} of {this} should be "{new}"; add it
Redo {this} with "{new}" as an extra last {unit}
Conclude {this} with the {unit} "{new}"
Edit {this} so that it finishes with the {unit} "{new}"
Will you add the {unit} "{new}" at the end of {this}
Slip the {unit} "{new}" in at the very end of {this}
Round {this} off with the {unit} "{new}"
Would you please finish {this} with the {unit} "{new}"
A new {unit} for the end of {this}: "{new}"
Have {this} end in a new {unit}, "{new}"
Include "{new}" at the end of {this}, as its last {unit}
Copy {this}, but with "{new}" as a new last {unit}
Insert one {unit} at the bottom of {this}: "{new}"
Complete {this} with the {unit} "{new}"
Place "{new}" below everything in {this}, as the last {unit}
Could you let {this} end with the {unit} "{new}"
There should be one more {unit} at the end of {this}: "{new}"
Please append the {unit} "{new}" to {this}
Write all of {this} and then the {unit} "{new}"
I want "{new}" to be the last {unit} of {this}
Update {this} with a new final {unit}: "{new}"
Go on after the end of {this} with one last {unit}, "{new}"
With "{new}" added as the last {unit}, write out {this}
""")

INSERT_AFTER = phrasings("""
Insert the {unit} "{new}" after the {which} {unit} of {this}
Add "{new}" after the {which} {unit} of {this}
Put the {unit} "{new}" right after the {which} {unit} of {this}
Squeeze the {unit} "{new}" in behind the {which} {unit} of {this}
Write "{new}" as a new {unit} after the {which} {unit} of {this}
After the {which} {unit} of {this}, add the {unit} "{new}"
Can you insert "{new}" after the {which} {unit} of {this}
Place "{new}" behind the {which} {unit} of {this}
Let the {unit} "{new}" follow the {which} {unit} of {this}
Please add the {unit} "{new}" after the {which} {unit} of {this}
Slip "{new}" in as a new {unit} after the {which} {unit} of {this}
Could you put "{new}" after the {which} {unit} of {this}
Insert a new {unit} in {this} after the {which} one: "{new}"
Add a {unit} to {this}, after the {which} one: "{new}"
Rewrite {this} with "{new}" added after the {which} {unit}
Make "{new}" the {unit} that comes right after the {which} {unit} of {this}
Put "{new}" directly below the {which} {unit} of {this}, as a new {unit}
Work the {unit} "{new}" into {this} after the {which} {unit}
Let "{new}" come next after the {which} {unit} in {this}
Would you add the {unit} "{new}" after the {which} {unit} of {this}
I would like the {unit} "{new}" after the {which} {unit} of {this}
In {this}, put "{new}" after the {which} {unit}
The {unit} "{new}" belongs after the {which} {unit} of {this}; add it
Redo {this} with the extra {unit} "{new}" after the {which} one
Include "{new}" in {this}, right after the {which} {unit}
Edit {this}: after the {which} {unit} comes the new {unit} "{new}"
Will you place the {unit} "{new}" after the {which} {unit} of {this}
Directly after the {which} {unit} of {this}, insert "{new}"
Follow the {which} {unit} of {this} with the {unit} "{new}"
Would you please insert the {unit} "{new}" in {this}, after the {which} {unit}
One more {unit} for {this}, to stand after the {which}: "{new}"
Have the {which} {unit} of {this} followed by "{new}"
Type "{new}" as an additional {unit} after the {which} {unit} in {this}
Copy {this}, but add "{new}" once the {which} {unit} is done
Add to {this} the {unit} "{new}"; it goes after the {which} {unit}
When the {which} {unit} of {this} is over, put in the {unit} "{new}"
There should be a {unit} "{new}" after the {which} {unit} of {this}
Could you let "{new}" follow the {which} {unit} in {this}
Leave {this} as it is, but put the {unit} "{new}" after the {which} {unit}
Please write "{new}" immediately after the {which} {unit} of {this}
Open up {this} after the {which} {unit} and insert the {unit} "{new}"
I want "{new}" to stand right after the {which} {unit} of {this}
Extend {this} with the {unit} "{new}" following the {which} one
Set the new {unit} "{new}" after the {which} {unit} in {this}
With the {unit} "{new}" inserted after the {which} {unit}, write out {this}
""")

ADD_GREETING = phrasings("""
Add the greeting "{new}" above {this}
Put the line "{new}" above {this}
Start {this} with the greeting "{new}" on its own line
Set the greeting "{new}" on a line of its own over {this}
Begin {this} with "{new}" on a line of its own
Write "{new}" on its own line, then {this}
Can you put the greeting "{new}" on a line above {this}
Add a first line with the greeting "{new}" to {this}
Open {this} with the greeting line "{new}"
Please add "{new}" as a greeting line at the top of {this}
Give {this} a greeting on its own line: "{new}"
Place the greeting "{new}" on a separate line before {this}
Could you add the line "{new}" at the top of {this}
I want the line "{new}" on top of {this}
Head {this} with the line "{new}"
Write the greeting "{new}" on the line above {this}
Insert the greeting "{new}" as a separate line before {this}
Make "{new}" the greeting of {this}, on a line by itself
Top {this} with the line "{new}"
Would you add the greeting line "{new}" to the top of {this}
I would like {this} to start with the greeting "{new}" on a separate line
On the line above {this}, write "{new}"
The line "{new}" should stand above {this}
Redo {this} with the greeting "{new}" on a line before it
Greet the reader with "{new}" on its own line before {this}
Edit {this} so that the greeting "{new}" stands on its own line at the top
Will you put "{new}" as a greeting on the line over {this}
Prepend the greeting line "{new}" to {this}
Let {this} open with "{new}" on its own line
Would you please write the greeting "{new}" on a line above {this}
Greeting for {this}, on its own line: "{new}"
Have {this} begin with the greeting line "{new}"
Include the greeting "{new}" on a line of its own at the top of {this}
Copy {this} under the greeting line "{new}"
Insert a line with "{new}" before {this}
First the line "{new}", then on the next line {this}
There is no greeting in {this}; add the line "{new}" at the top
Could you begin {this} with the greeting "{new}" on a separate line
Introduce {this} with a greeting line that says "{new}"
Please insert the greeting "{new}" on a new line above {this}
Say "{new}" on the first line and go on with {this} on the next
I need the greeting "{new}" on its own line above {this}
Update {this} with a first line that says "{new}" as the greeting
Attach the greeting "{new}" as a line at the top of {this}
With the greeting "{new}" on a line above it, write out {this}
""")

ADD_SIGN_OFF = phrasings("""
Sign {this} with "{new}" on its own line
Add the line "{new}" below {this}
End {this} with the sign-off "{new}" on its own line
Close {this} with "{new}" on a line of its own
Put the closing line "{new}" under {this}
Write {this} and then "{new}" on a new line
Can you add the sign-off "{new}" on a line below {this}
Add a last line with "{new}" to {this}
Finish {this} with the closing line "{new}"
Please sign {this} with the line "{new}"
Give {this} a sign-off on its own line: "{new}"
Place the sign-off "{new}" on a separate line after {this}
Could you put the line "{new}" at the bottom of {this}
I want the line "{new}" under {this}
Append the closing line "{new}" to {this}
Write the sign-off "{new}" on the line below {this}
Insert the sign-off "{new}" as a separate line at the end of {this}
Make "{new}" the closing of {this}, on a line by itself
Conclude {this} with the line "{new}"
Would you add the closing line "{new}" to the bottom of {this}
I would like {this} to end with the sign-off "{new}" on a separate line
On the line below {this}, write "{new}"
The line "{new}" should stand below {this}
Redo {this} with the sign-off "{new}" on a line after it
Say goodbye with "{new}" on its own line after {this}
Edit {this} so that the sign-off "{new}" stands on its own line at the bottom
Will you put "{new}" as a sign-off on the line under {this}
Add the sign-off line "{new}" at the end of {this}
Let {this} end with "{new}" on its own line
Would you please write the sign-off "{new}" on a line below {this}
Sign-off for {this}, on its own line: "{new}"
Have {this} end with the closing line "{new}"
Include the sign-off "{new}" on a line of its own at the end of {this}
Copy {this} and put the closing line "{new}" below it
Insert a line with "{new}" after {this}
First {this}, then on the next line "{new}"
There is no sign-off in {this}; add the line "{new}" at the bottom
Could you end {this} with the sign-off "{new}" on a separate line
Round off {this} with a closing line that says "{new}"
Please insert the sign-off "{new}" on a new line below {this}
Write out {this} and sign it on the next line with "{new}"
I need the sign-off "{new}" on its own line below {this}
Update {this} with a last line that says "{new}" as the sign-off
Attach the sign-off "{new}" as a line at the bottom of {this}
With the closing "{new}" on a line below it, write out {this}
""")

NUMBERS = phrasings("""
Number the lines of {this}
Put a number before each line of {this}
Turn {this} into a numbered list
Give each line of {this} a number, like "1. "
Make {this} a numbered list
Number each line of {this}, starting at 1
Can you number the lines of {this}
Write the lines of {this} as 1., 2., 3. and so on
Rewrite {this} as a numbered list
Please number the lines of {this}
Count the lines of {this} off with "1. ", "2. " in front
Number the lines of {this} in the style 1), 2), 3)
Put 1), 2), 3) and so on before the lines of {this}
Could you make a numbered list of {this}
Add line numbers such as "1. " to {this}
I need numbers in front of the lines of {this}
Set 1), 2) and so on in front of each line of {this}
Change {this} to a numbered list with 1), 2) and so on
Number {this}, line by line
Make each line of {this} start with its number
Begin the lines of {this} with 1., 2., 3. and so forth
Add a number in front of every line of {this}
Would you number the lines of {this}
I would like the lines of {this} numbered
Every line of {this} should have a number in front
The lines of {this} should be numbered from 1 upwards
Redo {this} as a list with numbers
Insert numbers before the lines of {this}
Format {this} as a numbered list
Will you turn {this} into a numbered list
Edit {this} so that each line begins with 1), 2), 3) and so on
Use 1), 2), 3) to number the lines of {this}
Would you please put a number at the start of each line of {this}
Numbered list, please: write {this} that way
Have the lines of {this} counted: 1., 2., 3. and so on
Convert {this} into a numbered list
Copy {this} with a number before every line
Mark the lines of {this} with numbers
Prefix every line of {this} with its line number
Let the lines of {this} be numbered 1), 2), 3)
Could you add numbers to the lines of {this}
Write {this} as a list that is numbered from 1 on
Please make the lines of {this} a numbered list
Enumerate the lines of {this}
I want {this} as a numbered list
Show {this} with a number in front of each line
Lay out {this} as a numbered list, one number a line
With a number before each line, write out {this}
Place 1) before the first line of {this}, 2) before the second, and so on
""")

BULLETS = phrasings("""
Turn the lines of {this} into bullet points
Make {this} a bullet list
Put a dash before each line of {this}
Give each line of {this} a bullet, "- "
Rewrite {this} as a bullet list
Write {this} as bullet points
Can you make bullet points of {this}
Add "- " in front of each line of {this}
Format {this} as a list with dashes
Please turn {this} into bullets
Set a dash in front of every line of {this}
Change {this} into a bulleted list
Put "* " before each line of {this}
Could you write the lines of {this} as bullets
Make a bullet list of {this} with "* " as the mark
I need {this} as a bullet list
Start each line of {this} with "* "
Give the lines of {this} bullets, one "* " each
Bullet the lines of {this}
Make each line of {this} a bullet point
Begin every line of {this} with a dash
Add a bullet in front of each line of {this}
Would you put the lines of {this} into bullet points
I would like {this} as bullet points
Every line of {this} should start with "- "
The lines of {this} should become bullet points
Redo {this} as a list of bullets
Insert "- " before every line of {this}
Convert {this} to a bulleted list
Will you make {this} into a bullet list
Edit {this} so that each line begins with a dash
Use "* " as a bullet before every line of {this}
Would you please write a dash before each line of {this}
Bullet points, please: write {this} that way
Have every line of {this} begin with a bullet
Turn {this} into a dashed list
Copy {this} with "* " in front of each line
Mark the lines of {this} with dashes
Prefix every line of {this} with "- "
Let each line of {this} start with a bullet
Could you add bullets to the lines of {this}
Write each line of {this} as a separate bullet point
Please format {this} as a bulleted list
Present {this} as bullet points
I want a dash before every line of {this}
Show {this} with a bullet on each line
Lay out {this} as a list with bullets
With "* " before each line, write out {this}
Please place "* " at the start of all lines in {this}
""")

UNMARK = phrasings("""
Remove the {sign} from {this}
Take away the {sign} before the lines of {this}
Write {this} without the {sign}
Strip off the {sign} at the start of each line in {this}
Delete the {sign} at the start of the lines of {this}
Give me {this} as plain lines, without {sign}
Can you remove the {sign} from {this}
Drop the {sign} in {this}, but keep the lines
Turn {this} into plain lines with no {sign}
Please take the {sign} out of {this}
Clear the leading {sign} from {this}
Rewrite {this} with no {sign} in front
Could you write {this} without {sign}
I need {this} without the {sign}
Keep the words of {this}, but remove the {sign} in front
Take the {sign} off the lines of {this}
Make {this} plain lines again by removing the {sign}
Get rid of the {sign} in {this}
Erase the {sign} in front of the lines of {this}
Would you delete the {sign} from {this}
I would like {this} with no {sign} before the lines
Every line of {this} should lose its mark; no {sign} any more
The {sign} in front of the lines of {this} should go
Redo {this} without any {sign}
Leave out the {sign} when you copy {this}
Edit {this} so that the lines have no {sign}
Will you take away the {sign} from {this}
Cut the {sign} from the start of each line of {this}
Keep the lines of {this} and delete the {sign}
Would you please remove the {sign} before each line of {this}
No {sign} in {this}, please, only the lines
Have the lines of {this} stand without {sign}
Undo the {sign} in {this}
Copy {this}, but not the {sign}
Let the lines of {this} start with their words, without {sign}
Throw out the {sign} in front of each line of {this}
Repeat the lines of {this} with the {sign} left out
Could you get the {sign} out of {this}
Show {this} as simple lines without the {sign}
Please write the lines of {this} with no {sign} before them
Go back to bare lines: remove the {sign} from {this}
I want the {sign} gone from {this}
Update {this}: the same lines, but no {sign}
Omit the {sign} at the beginning of every line in {this}
With the {sign} removed, write out {this}
""")

COMMAS = phrasings("""
Put {this} on one line, with commas between the items
Write {this} in one line, separated by commas
Join the lines of {this} with commas
Run the lines of {this} together on one line, a comma after each but the last
Make one line of {this}, with commas
Turn {this} into one line separated by commas
Can you write {this} on a single line with commas
Combine the items of {this} in one line, split by commas
Rewrite {this} as a single line with commas
Please put all items of {this} on one line with commas between them
String the items of {this} together with commas on a single line
Change {this} to a comma separated line
Could you join {this} into one line with commas
Give me {this} as one comma separated line
I need {this} on one line, with commas
Make {this} a single line with commas in between
List everything in {this} on one line, with commas
Merge the lines of {this} into one, separated by commas
Replace the line breaks in {this} with commas
Would you put {this} on one line with commas
I would like the lines of {this} joined by commas
Every line of {this} should go on one line, with commas between them
The lines of {this} should become one line with commas
Redo {this} as one line, the items parted by commas
Use commas instead of line breaks in {this}
Convert {this} into a comma-separated list on one line
Will you join the lines of {this} with commas
Edit {this} so that it is one line with commas
Place all the items of {this} side by side with commas between
Would you please turn {this} into a single comma-separated line
One line with commas, please, from {this}
Have the items in {this} follow each other on one line, with commas
Collapse {this} into one line, using commas
Copy the items of {this} onto one line and put commas between them
Let commas take the place of the line breaks in {this}
Flatten {this} to one line with commas
Write the items of {this} one after the other, with commas, on one line
Could you list the items of {this} on one line, separated by commas
Swap each line break in {this} for a comma
Please merge {this} into one line with commas
Show the items of {this} in a row, with commas between them
I want a single line with commas made from {this}
Link the lines of {this} by commas on one line
Squeeze {this} into one line, with commas as separators
With commas between the items, write {this} on one line
""")

ONE_PER_LINE = phrasings("""
Put each sentence of {this} on its own line
Write {this} with one sentence per line
Start a new line for every sentence in {this}
Break {this} up, a fresh line for each sentence
Split {this} into lines, one sentence each
Rewrite {this} with each sentence on a new line
Can you put every sentence of {this} on a line of its own
Give each sentence in {this} its own line
Break the line after each sentence of {this}
Please write one sentence of {this} per line
Divide {this} so that every line holds one sentence
List the sentences of {this}, one per line
Could you start each sentence of {this} on a new line
Separate the sentences of {this} by line breaks
I want every sentence of {this} on a separate line
Make each sentence of {this} a separate line
Begin a new line with each sentence of {this}
Place every sentence of {this} on its own line
Insert a line break after every sentence of {this}
Would you put each sentence of {this} on its own line
I would like {this} with one sentence on each line
Every sentence of {this} should have its own line
The sentences of {this} should each stand on a line of their own
Redo {this} with a line for each sentence
Arrange {this} so that each sentence has a line to itself
Edit {this}: one line, one sentence
Will you split {this} so that there is one sentence per line
Turn {this} into a list of sentences, one on each line
Go to a new line whenever a sentence of {this} ends
Would you please give every sentence of {this} a separate line
One sentence per line, please, for {this}
Have each sentence in {this} start on a fresh line
Convert {this} to one sentence per line
Copy {this}, but begin each sentence on a new line
Let every sentence of {this} stand alone on a line
Lay {this} out line by line, one sentence on each
Press enter after each sentence of {this}
Could you write {this} with a line break after every sentence
Show {this} sentence by sentence, each on its own line
Please set every sentence of {this} on a new line
Spread {this} over lines, one sentence to a line
I need each sentence of {this} on its own line
Format {this} with a single sentence on every line
Add line breaks to {this} so that no line has more than one sentence
With each sentence on a line of its own, write out {this}
""")

QUOTE_EACH = phrasings("""
Put each line of {this} in quotation marks
Put quotes around every line of {this}
Write each line of {this} in double quotes
Set every line of {this} between quotation marks
Add quotation marks around each line of {this}
Wrap each line of {this} in double quotes
Can you put the lines of {this} in quotation marks
Quote every line of {this}, each in its own double quotes
Rewrite {this} with each line in quotation marks
Please put every single line of {this} in double quotes
Enclose the lines of {this} in double quotes, one by one
Give each line of {this} quotation marks at both ends
Could you wrap every line of {this} in quotes
Surround each line of {this} with quotation marks
I need each line of {this} in quotes
Make each line of {this} a quotation with double quotes
Insert double quotes around each line of {this}
Begin and end each line of {this} with a quotation mark
Place double quotes around all lines of {this}, each line by itself
Would you put quotation marks around every line of {this}
I would like every line of {this} in double quotes
Every line of {this} should be in quotation marks
The lines of {this} should each have quotes around them
Redo {this} with quotes around each line
Use double quotes around each line of {this}
Edit {this} so that each line is quoted
Will you wrap each line of {this} in quotation marks
Open and close every line of {this} with double quotes
Convert the lines of {this} to quoted lines, each in double quotes
Would you please add double quotes to both ends of each line of {this}
Quotation marks, please, around each line of {this}
Have each line of {this} stand in double quotes
Turn every line of {this} into a quoted one
Copy {this} with each line in double quotes
Let every line of {this} have quotation marks around it
Type a double quote before and after each line of {this}
Write quotation marks around all the lines of {this}, line by line
Could you quote each line of {this}
Show each line of {this} inside double quotes
Please surround every line of {this} with double quotes
Mark each line of {this} as a quote with quotation marks
I want quotation marks at the start and end of every line of {this}
Format {this} so that every line is inside quotation marks
All lines of {this} need double quotes around them, one pair a line
With each line wrapped in double quotes, write out {this}
""")

ADD_TO_EACH = phrasings("""
Put the word "{word}" before each line of {this}
Add "{word}" at the end of each line of {this}
Add "{word}" in front of every line of {this}
Set "{word}" at the start of all lines in {this}
Write "{word}" after every line of {this}
Start each line of {this} with the word "{word}"
Can you put "{word}" before every line of {this}
End each line of {this} with the word "{word}"
Begin every line of {this} with "{word}"
Please add "{word}" to the end of every line in {this}
Attach "{word}" to each line of {this}, at the end
Put "{word}" at the beginning of each line of {this}
Could you add "{word}" at the end of all lines of {this}
Append "{word}" to each line of {this}
Prefix each line of {this} with "{word}"
Let every line of {this} start with "{word}"
Make each line of {this} start with "{word}"
Make every line of {this} end with "{word}"
Insert "{word}" before every line of {this}
Write "{word}" at the end of every line of {this}
Would you add "{word}" to the start of each line of {this}
I would like "{word}" at the end of each line of {this}
Every line of {this} should begin with "{word}"
The word "{word}" should stand at the end of every line of {this}
Redo {this} with "{word}" in front of each line
Place "{word}" after each line of {this}
Edit {this} so that each line starts with "{word}"
Will you end every line of {this} with "{word}"
Open every line of {this} with the word "{word}"
Finish each line of {this} with "{word}" at its end
Would you please put "{word}" in front of all the lines of {this}
One word to add after every line of {this}: "{word}"
Have each line of {this} begin with the word "{word}"
Extend each line of {this} with the word "{word}"
Copy {this} with "{word}" before each line
Let each line of {this} end in "{word}"
Lead each line of {this} off with "{word}"
Stick "{word}" on the end of every line in {this}
Could you put the word "{word}" at the start of every line of {this}
Type "{word}" after the last word of each line in {this}
Please begin all lines of {this} with "{word}"
Tag every line of {this} with "{word}" at the end
I want "{word}" as the first word of each line of {this}
All lines of {this} need "{word}" at their end
Slip "{word}" in at the front of every line of {this}
With "{word}" added after each line, write out {this}
""")

SET_VALUE = phrasings("""
Set {key} to {new} in {this}
Change {key} to {new} in {this}
Change the value of {key} to {new} in {this}
Give {key} the value {new} in {this}
In {this}, set {key} to {new}
Change {key} from {old} to {new} in {this}
Can you set {key} to {new} in {this}
Update {this}: {key} should be {new}
Put {new} as the value of {key} in {this}
Please change {key} to {new} in {this}
Make {key} equal to {new} in {this}
The value of {key} in {this} must be {new}
Replace the value {old} of {key} with {new} in {this}
Could you change {key} in {this} to {new}
I need {key} to be {new} in {this}
Rewrite {this} with {key} set to {new}
Alter {key} to {new} in {this}
Switch {key} to {new} in {this}
Put {key} at {new} in {this}
Adjust {key} to {new} in {this}
Edit {this}: the value of {key} is now {new}
Turn the value of {key} in {this} into {new}
Would you set the value of {key} to {new} in {this}
I would like {key} in {this} to be {new}
In {this}, {key} must have the value {new}
The setting {key} in {this} should be {new}
Redo {this} with the value {new} for {key}
Assign {new} to {key} in {this}
Use {new} for {key} in {this}
Will you update {key} to {new} in {this}
Correct the value of {key} in {this} from {old} to {new}
Fix {key} in {this}; it should be {new}
Would you please change the setting {key} to {new} in {this}
New value for {key} in {this}: {new}
Have {key} set to {new} in {this}
Swap the value {old} of {key} in {this} for {new}
Copy {this}, but with {key} at {new}
Let {key} be {new} in {this}
Could you update the value of {key} in {this} to {new}
Write {new} as the value for {key} in {this}
Please set {key} in {this} to the value {new}
Take {old} away from {key} in {this} and put {new} there
I want {key} changed to {new} in {this}
Leave {this} as it is, but make {key} {new}
Configure {key} as {new} in {this}
With {key} changed to {new}, write out {this}
""")

RENAME_KEY = phrasings("""
Rename the key {old} to {new} in {this}
Rename {old} to {new} in {this}
Change the name of the setting {old} to {new} in {this}
Call the setting {old} in {this} {new} from now on
In {this}, rename {old} to {new} and keep its value
Replace the key {old} with {new} in {this}
Can you rename the setting {old} to {new} in {this}
Use {new} as the name of {old} in {this}
Write {new} instead of {old} in {this}
The key {old} in {this} should be called {new}
Give the key {old} in {this} the new name {new}
Please rename {old} to {new} in {this}
Could you change the key {old} to {new} in {this}
Change {old} to {new} in {this}, with the same value
Rewrite {this} with {new} in place of the key {old}
Alter the key name {old} to {new} in {this}
Switch the key {old} to {new} in {this}
Turn the key {old} into {new} in {this}
Substitute the key {new} for {old} in {this}
Edit {this}: the key {old} is now called {new}
Swap the key {old} for {new} in {this} and leave its value alone
Would you rename the key {old} as {new} in {this}
I would like the key {old} in {this} renamed to {new}
In {this}, change the key {old} to {new}
The setting {old} in {this} needs the name {new}
Redo {this} with the key {old} renamed {new}
Update the key name {old} to {new} in {this}, value unchanged
Convert the key {old} in {this} to {new}
Will you change the name of the key {old} to {new} in {this}
Keep the value of {old} in {this}, but name the key {new}
Correct the key {old} in {this}: its name is {new}
Would you please use the key {new} instead of {old} in {this}
Key rename in {this}: {old} becomes {new}
Have the key {old} in {this} changed to {new}
Put the key {new} where {old} is in {this}
Copy {this}, but with {new} as the name of the key {old}
Let the key {old} in {this} be named {new}
Could you rename the setting called {old} to {new} in {this}
Exchange the key name {old} for {new} in {this}
Please write the key {old} as {new} in {this}
Fix the name of the key {old} in {this}; it ought to be {new}
I want the setting {old} in {this} to be named {new}
The name {old} of the setting in {this} must become {new}
Replace the setting's name {old} by {new} in {this}, but not its value
With the key {old} renamed to {new}, write out {this}
""")

REMOVE_SETTING = phrasings("""
Remove the setting {key} from {this}
Delete {key} from {this}
Take {key} out of {this}
Drop the line for {key} from {this}
Remove {key} from {this}
Write {this} without {key}
Can you delete the setting {key} from {this}
Leave out {key} in {this}
Delete the line that sets {key} in {this}
Please remove the {key} line from {this}
Strike the setting {key} from {this}
I do not need {key} in {this}; remove it
Could you drop {key} from {this}
Erase the line with {key} in {this}
Rewrite {this} without the setting {key}
Get rid of {key} in {this}
Cut the line with {key} from {this}
Omit {key} from {this}
Scrap the setting {key} in {this}
Edit {this} so that {key} is no longer there
Throw out the setting {key} from {this}
Would you remove the setting {key} from {this}
I would like {key} removed from {this}
In {this}, delete the line for {key}
The setting {key} should go from {this}
Redo {this} and leave {key} out
Keep all of {this} except {key}
Eliminate {key} from {this}
Will you delete {key} from {this}
Copy {this}, but not the line with {key}
All settings in {this} stay, only {key} goes
Would you please take the setting {key} out of {this}
The line that sets {key} is not needed in {this}; delete it
Have {key} removed from {this}
Skip {key} when you write out {this}
Discard the {key} setting of {this}
Let {key} disappear from {this}
Could you leave the setting {key} out of {this}
Pull the {key} line out of {this}
Please delete the whole line of {key} in {this}
Repeat {this} with the setting {key} left out
I want {key} gone from {this}
Clear {key} out of {this}
From {this}, remove the setting named {key}
With {key} taken out, write {this} again
""")

ADD_SETTING = phrasings("""
Add {key} with the value {new} at the end of {this}
Add the setting {key} with the value {new} to the end of {this}
Append {key} with value {new} to {this}
Give {this} one more setting at the end: {key}, value {new}
At the end of {this}, add {key} with the value {new}
Put {key} with the value {new} below the last line of {this}
Can you add {key} with the value {new} at the end of {this}
Extend {this} by {key}, which is {new}
Add one more line to {this}: {key} is {new}
Please add {key} as the last setting of {this}, with the value {new}
Attach the setting {key} to the end of {this}, value {new}
Complete {this} with a last setting: {key} is {new}
Could you append the setting {key} with value {new} to {this}
Write {this} with {key} set to {new} as a new last line
I need one more setting at the end of {this}: {key} with the value {new}
Insert {key} with the value {new} as the last line of {this}
Put a new setting at the end of {this}: {key} with value {new}
Include {key} as one more setting at the end of {this}, value {new}
Set {key} to {new} in a new line at the end of {this}
Edit {this}: add {key}, set to {new}, as the last line
Finish {this} with the setting {key}, value {new}
Would you add the setting {key} with value {new} at the bottom of {this}
I would like {key} added at the end of {this} with the value {new}
In {this}, append {key} with the value {new}
The setting {key} is missing from {this}; add it at the end with the value {new}
Redo {this} with {key} added at the end, set to {new}
Place {key} with the value {new} at the bottom of {this}
End {this} with the new setting {key}, which has the value {new}
Will you append {key} to {this} with the value {new}
Below the other settings of {this}, write {key} with the value {new}
New last setting for {this}: {key}, value {new}
Would you please put {key} with the value {new} at the end of {this}
There should be a last line for {key} in {this}, with the value {new}
Have {key} with the value {new} added to the end of {this}
Stick {key} on the end of {this}, with {new} as its value
Copy {this} and add {key} with the value {new} as a final line
Let {this} end with a line that sets {key} to {new}
Could you insert a last line in {this} that sets {key} to {new}
Tack the setting {key} with value {new} onto the end of {this}
Please append a line to {this} in which {key} is {new}
Write one more setting under {this}: {key}, with the value {new}
I want {key} with the value {new} as the last line of {this}
Add a final setting to {this}, namely {key} with value {new}
Update {this} with the additional setting {key} at the end, value {new}
With {key} added as a last line and set to {new}, write out {this}
""")

FILL_FORM = phrasings("""
Fill in {this}
Fill {this} with the values
Complete {this} with these values
Enter the given values in {this}
Put the values into {this}
Fill the blanks in {this}
Can you fill in {this} for me
Fill out {this} with the values given
Write {this} with all blanks filled
Please complete {this}
Work the values into the blanks of {this}
Replace the blanks in {this} with the values
Could you fill {this} out
I need {this} filled in
Use the values to fill {this}
Put each value in its place in {this}
Insert the values in {this}
Make {this} complete with the values
Write the values into {this}
Add the values to {this} where they belong
Would you fill in {this}
I would like {this} filled out with the values
Every blank in {this} should get its value
The blanks in {this} should be filled with the values
Set the right value in each blank of {this}
Type each value over its blank in {this}
Finish {this} by filling in the values
Will you complete {this} for me
Swap each blank in {this} for its value
Place the values where {this} has blanks
Would you please fill out {this}
Fill every gap in {this} with the value that belongs there
Have all the blanks of {this} filled in
Copy {this} with the values in place of the blanks
Substitute the values for the blanks in {this}
Let each value take its place in {this}
Could you put the values in {this}
Exchange the blanks in {this} for the values given
Please write {this} out with the values filled in
Use what is given to complete {this}
Give me {this} with no blank left
Show me {this} filled in with these values
I want all the blanks in {this} filled
Supply the missing values in {this}
Update {this} with the given values
With the values in their places, write out {this}
""")

BULLETS_TO_NUMBERS = phrasings("""
Change the bullets in {this} to numbers
Use numbers instead of the bullets in {this}
Turn the bullets of {this} into 1., 2., 3.
Let numbers take the place of the bullets in {this}
Replace the bullets in {this} with numbers
Make a numbered list out of the bullets in {this}
Can you number {this} instead of using bullets
Rewrite {this} with numbers in place of the bullets
Swap the bullets in {this} for numbers
Please use numbers rather than bullets in {this}
Write {this} with numbers where the bullets are
Change {this} from a bullet list to a numbered list
Could you turn the bullets in {this} into numbers
I want numbers and no bullets in {this}
Convert {this} from bullets to a numbered list
Make the bullets in {this} into numbers
Put numbers where the bullets are in {this}
Number {this} and take away the bullets
Switch {this} from bullets to numbers
Would you change the bullets in {this} into numbers
I would like the bullets in {this} replaced by numbers
Every bullet in {this} should become a number
The bullets in {this} should be numbers
Redo {this} with numbers, not bullets
Exchange the bullets in {this} for 1., 2., 3. and so on
Edit {this} so that it is numbered instead of bulleted
Will you swap the bullets in {this} for numbers
Remove the bullets from {this} and number the lines instead
Substitute numbers for the bullets in {this}
Would you please convert the bullets in {this} to numbers
Numbers instead of bullets, please, in {this}
Have the lines of {this} numbered where they now have bullets
Alter {this} from a bulleted to a numbered list
Copy {this} with a number in place of each bullet
Drop the bullets in {this} and use numbers
Turn {this} from bullet points into a numbered list
Let each bullet in {this} become a number
Could you replace the bullets in {this} by numbers
Begin the lines of {this} with 1), 2), 3) rather than with bullets
Please turn each bullet in {this} into a number, counting from 1
Write 1), 2), 3) and so on in place of the bullets in {this}
I need the bullets in {this} changed to numbers
Give the bulleted lines of {this} numbers from 1 up, and no bullets
Format {this} as a numbered list, no longer as bullets
With numbers instead of its bullets, write out {this}
""")

NUMBERS_TO_BULLETS = phrasings("""
Change the numbers in front of the lines of {this} to bullets
Use bullets instead of the line numbers in {this}
Turn the numbered lines of {this} into bullets
Let bullets take the place of the line numbers in {this}
Replace the line numbers in {this} with bullets
Make a bullet list out of the numbered lines in {this}
Can you use bullets instead of numbers for the lines of {this}
Rewrite {this} with bullets in place of the line numbers
Swap the line numbers in {this} for bullets
Please use bullets rather than line numbers in {this}
Write {this} with bullets where the line numbers are
Change {this} from a numbered list to a bullet list
Could you turn the numbered list into bullets in {this}
I want bullets and no line numbers in {this}
Convert {this} from a numbered list to a bullet list
Make the line numbers in {this} into bullets
Put bullets where the line numbers are in {this}
Bullet the lines of {this} and take away their numbers
Switch {this} from line numbers to bullets
Would you change the line numbers in {this} into bullets
I would like the line numbers in {this} replaced by bullets
Every line number in {this} should become a bullet
The line numbers in {this} should be bullets
Redo {this} with bullets, not line numbers
Exchange the numbers before the lines of {this} for dashes
Edit {this} so that the lines are bulleted instead of numbered
Will you swap the line numbers in {this} for dashes
Remove the line numbers from {this} and use bullets instead
Substitute bullets for the line numbers in {this}
Would you please convert the numbered lines of {this} to bullets
Bullets instead of line numbers, please, in {this}
Have a bullet before each line of {this} where there is now a number
Alter {this} from a numbered to a bulleted list
Copy {this} with a dash in place of each line number
Drop the line numbers in {this} and use dashes
Turn {this} from a numbered list into bullet points
Let each line number in {this} become a bullet
Could you replace the line numbers in {this} by bullets
Begin the lines of {this} with dashes rather than with numbers
Please turn the number before each line of {this} into a bullet
Write "- " in place of each line number in {this}
I need the line numbers in {this} changed to bullets
Unnumber the lines of {this} and give them bullets
Format {this} as a bullet list, no longer as a numbered one
With bullets instead of its line numbers, write out {this}
""")
