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
""")
