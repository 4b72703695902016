"""How people ask for records, tables and lists. `{this}` stands for what they tell; no full stop at the end."""

from __future__ import annotations

from .phrasings import phrasings

JSON_RECORD = phrasings("""
Make a JSON record of {this}
Turn {this} into JSON
Write {this} as JSON
Put {this} in JSON form
Make a JSON object from {this}
JSON please
Can you turn {this} into a JSON object
Convert {this} to JSON
Give me {this} as JSON
I need {this} as a JSON record
Write a JSON object that holds {this}
Store {this} as JSON
Please make JSON out of {this}
Format {this} as a JSON object
Could you write {this} as a JSON record
Extract the facts as JSON
Change {this} to JSON
Record {this} in JSON
As JSON
Show {this} as a JSON object
Create a JSON record for {this}
Make JSON
Make a JSON record
Write JSON
""")

KEYS = phrasings("""
with the keys {keys}
with the fields {keys}
using the keys {keys}
where the keys are {keys}
with keys {keys}
and use the keys {keys}
that has the keys {keys}
with {keys} as the keys
under the keys {keys}
and name the keys {keys}
with exactly the keys {keys}
(keys: {keys})
with these keys: {keys}
and call the keys {keys}
with the properties {keys}
""")

GROUPED = phrasings("""
Put {members} in an object called {group}
Group {members} under the key {group}
Nest {members} inside {group}
Let {members} go in an inner object, {group}
Place {members} in a nested object named {group}
Collect {members} in an object under {group}
The keys {members} belong in an object called {group}
Keep {members} together in an object named {group}
Make {group} an object with {members}
Store {members} inside an object with the key {group}
Bundle {members} in an object called {group}
Move {members} into an object named {group}
""")

MISSING = phrasings("""
Use null for what is missing
Put null where nothing is known
If a value is not given, use null
Whatever is not told gets the value null
Write null for unknown values
Missing values are null
Unknown values should be null
""")

ONE_LINE = phrasings("""
All on one line
Put it on a single line
On one line, please
Keep the JSON on one line
Write it in one line
Use a single line
Compact, on one line
""")

JSON_ARRAY = phrasings("""
Make a JSON array of {this}
Turn {this} into a JSON array of objects
Write {this} as a JSON array
List {this} as objects in a JSON array
Convert {this} to a JSON list of objects
Give me {this} as a JSON array
Can you make a JSON array of {this}
I need {this} as a JSON array, one object each
Put {this} in a JSON array with one object per entry
Please write {this} as a list of JSON objects
Set {this} down as a JSON array with an object for each
Make one JSON array out of {this}
Could you turn {this} into a JSON array
Format {this} as an array of JSON objects
Change {this} into a JSON array
""")

TABLE = phrasings("""
Make a table of {this}
Put {this} in a table
Turn {this} into a Markdown table
Set {this} out as a table
Write {this} as a table
Make a Markdown table of {this}
Can you make a table of {this}
Show {this} in a table
Arrange {this} in a Markdown table
Please put {this} in a table
Bring {this} into the form of a table
I need {this} as a table
Format {this} as a Markdown table
Could you make a Markdown table from {this}
Give me {this} as a table
Draw up a table of {this}
A table please
""")

COLUMNS = phrasings("""
with the columns {keys}
with columns {keys}
with the columns {keys} in this order
whose columns are {keys}
using the columns {keys}
under the headings {keys}
(columns: {keys})
with {keys} as the columns
with the headings {keys}
that has the columns {keys}
with one column each for {keys}
and head the columns {keys}
with these columns: {keys}
and use the columns {keys}
with the column names {keys}
""")

BULLETS = phrasings("""
Make a bullet list of {this}
Write {this} as bullet points
Turn {this} into a bullet list
Set {this} out in bullet points
List {this} with bullets
Put {this} in a bullet list
Can you make bullet points of {this}
Give me {this} as a bulleted list
I need {this} as bullet points
Please write {this} as a bullet list
Break {this} into bullet points
Make a list of {this}
Show {this} as a list with dashes
Could you list {this} as bullets
Convert {this} to a bullet list
A bullet list please
List {this}
Turn {this} into a list
""")

NUMBERED = phrasings("""
Make a numbered list of {this}
Number {this}
Turn {this} into a numbered list
Set {this} out as a numbered list
Write {this} as a numbered list
List {this} with numbers
Can you make a numbered list of {this}
Give me {this} as a numbered list
I need {this} as a numbered list
Please number {this} as a list
Break {this} into a list with numbers
Put {this} in a numbered list
Could you list {this} with numbers in front
Convert {this} to a numbered list
A numbered list please
Show {this} as a list numbered 1., 2., 3.
""")

CHECKLIST = phrasings("""
Make a checklist of {this} with "- [ ]" before each item
Turn {this} into a checklist in Markdown, "- [ ]" first
Write {this} as a Markdown checklist with empty boxes, "- [ ]"
Set {this} out as a checklist, each item after "- [ ]"
List {this} with an empty box "- [ ]" before each
Can you make a "- [ ]" checklist of {this}
Please put "- [ ]" before each item of {this}, one per line
I need {this} as a checklist in the form "- [ ] item"
Give me {this} as a to-do list with "- [ ]" boxes
Convert {this} to a checklist with "- [ ]"
Put {this} in a list of boxes, "- [ ]" before every item
Could you write {this} as a "- [ ]" list
""")

ADD_KEY = phrasings("""
Now add the {key} {value}
Add the {key} {value}
Also add {key} {value}
Put in the {key} as well: {value}
Add one more key, {key}, with the value {value}
Can you add the {key} {value}
I forgot the {key}: {value}
Now add a key {key} with {value}
Please add {key}: {value}
The {key} is {value}; add it
One thing is missing, the {key}: {value}
Include the {key} {value} too
And the {key} is {value}
Add {key}: {value}
Could you add the {key}, which is {value}
""")

CHANGE_KEY = phrasings("""
Change the {key} to {value}
Now change the {key} to {value}
Set the {key} to {value}
Correct the {key} to {value}
The {key} should be {value}
Actually, the {key} is {value}
Can you change the {key} to {value}
The {key} is wrong; it is {value}
Please set {key} to {value}
Update the {key}: {value}
No, the {key} must be {value}
Make the {key} {value}
Sorry, the {key} is {value}
Could you set the {key} to {value}
""")

REMOVE_KEY = phrasings("""
Remove the {key}
Now remove the {key}
Delete the {key}
Take the {key} away again
Leave out the {key}
Drop the key {key}
Can you remove the {key}
I do not need the {key}
Without the {key}, please
Please delete the {key}
Strike the {key}
The {key} can go
""")

RENAME_KEY = phrasings("""
Rename the key {key} to {value}
Call the key {key} {value} instead
Now rename {key} to {value}
Let the key {key} be called {value}
Use {value} as the key instead of {key}
Change the key {key} to {value}
Can you rename the key {key} to {value}
The key {key} should be named {value}
Please rename {key} to {value}
Write the key {key} as {value}
Give the key {key} the name {value}
Replace the key {key} with {value}
""")

AS_TABLE = phrasings("""
As a table instead
Now as a table
Make that a Markdown table
The same as a table, please
Turn that into a table
Can you show it as a table
Now put it in a table
Show me a table instead
Please make a table of it
Give me that as a table
Change it to a table
I would rather have a table
""")

AS_BULLETS = phrasings("""
As a bullet list instead
Now as a bullet list
Make that a bullet list
The same as bullet points, please
Turn that into bullet points
Can you show it as a bullet list
Now put it in a bullet list
Show me bullet points instead
Please make a bullet list of it
Give me that with bullets
Change it to a bullet list
I would rather have bullets
""")

AS_NUMBERED = phrasings("""
Number them instead
Now as a numbered list
Make that a numbered list
The same with numbers, please
Turn that into a numbered list
Can you number the items
Now use numbers
Show me a numbered list instead
Please number it
Give me that with numbers
Change it to a numbered list
I would rather have numbers
""")

AS_JSON = phrasings("""
As JSON instead
Now as JSON
Make that JSON
The same in JSON, please
Turn that into JSON
Can you write it as JSON
Now put it in JSON
Show me JSON instead
Please make JSON of it
Give me that as JSON
Change it to JSON
I would rather have JSON
""")

ADD_ROW = phrasings("""
Add a row: {value}
Now add the row {value}
Add one more row with {value}
Put one more row at the end: {value}
Also add {value}
Can you add a row with {value}
One more row: {value}
Please add {value} as a new row
Append the row {value}
I forgot one row: {value}
The last row should be {value}; add it
Add {value} at the end
""")

REMOVE_ROW = phrasings("""
Remove the row of {key}
Delete the row with {key}
Now remove {key}
Take out the row for {key}
Leave out {key}
Drop the row of {key}
Can you remove the row of {key}
I do not need {key} in it
Without {key}, please
Please delete the row of {key}
Strike the row with {key}
{key} can go
""")

CHANGE_CELL = phrasings("""
Change the {column} of {key} to {value}
For {key}, set the {column} to {value}
Set the {column} of {key} to {value}
Correct the {column} of {key}: it is {value}
The {column} of {key} is {value}
The {column} of {key} should be {value}
Can you change the {column} of {key} to {value}
In the row of {key}, the {column} must be {value}
Please put {value} as the {column} of {key}
Update the {column} of {key} to {value}
Sorry, the {column} of {key} must be {value}
For {key} the {column} is wrong; it is {value}
""")

DROP_COLUMN = phrasings("""
Remove the column {key}
Delete the {key} column
Now without the column {key}
Take the column {key} out
Leave out the {key} column
Drop the column {key}
Can you remove the {key} column
I do not need the column {key}
Without the {key} column, please
Please delete the column {key}
Strike the {key} column
The column {key} can go
""")

SORT = phrasings("""
Sort it alphabetically
Now sort it from A to Z
Put them in alphabetical order
Arrange it by the alphabet
Sort the list by letter
Can you sort it alphabetically
Alphabetical order, please
Please sort it from A to Z
Order it alphabetically
Now in alphabetical order
Bring it into alphabetical order
Sort from A to Z
""")

ADD_ITEM = phrasings("""
Add {value}
Now add {value}
Also add {value}
Put {value} on it too
Add {value} at the end
Can you add {value}
I forgot {value}
Please add {value}
And {value}
One more: {value}
{value} should be on it as well
Include {value} too
Append {value}
Oh, and {value}
""")

REMOVE_ITEM = phrasings("""
Remove {value}
Now remove {value}
Take {value} off
Strike {value} from the list
Delete {value}
Can you remove {value}
I do not need {value}
Please leave out {value}
Without {value}, please
Drop {value}
Cross off {value}
Cut {value}
""")

TO_JSON = phrasings("""
Turn {this} into JSON
Convert {this} to JSON
Write {this} as JSON
Put {this} into JSON form
Make JSON from {this}
Give me {this} as JSON
Can you convert {this} to JSON
I need {this} in JSON
Change {this} into JSON
Please write {this} as JSON
Rewrite {this} in JSON
Format {this} as JSON
Could you turn {this} into JSON
Show {this} as JSON
Make {this} JSON
""")

TO_TABLE = phrasings("""
Turn {this} into a Markdown table
Convert {this} to a table
Write {this} as a table
Set {this} as a Markdown table
Make a table from {this}
Give me {this} as a table
Can you convert {this} to a Markdown table
I need {this} as a table
Change {this} into a table
Please write {this} as a Markdown table
Rewrite {this} as a table
Format {this} as a table
Could you turn {this} into a table
Show {this} as a table
Make {this} a Markdown table
""")

TO_BULLETS = phrasings("""
Turn {this} into a bullet list
Convert {this} to bullet points
Write {this} as a bullet list, one bullet per key
Set {this} as bullet points
Make a bullet list from {this}
Give me {this} as bullet points
Can you convert {this} to a bullet list
I need {this} as a bullet list
Change {this} into bullets
Please write {this} as bullet points
Rewrite {this} as a bullet list
Format {this} as bullets
Could you turn {this} into bullets
Show {this} as a bullet list
""")
