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
Return {this} as a JSON object
I would like to have {this} in JSON
Render {this} as JSON
From {this}, build a JSON object
What I want is JSON for {this}
Would you express {this} as a JSON object
{this} should become a JSON record
Output {this} as JSON
My program reads JSON, so write {this} that way
Encode {this} as a JSON object
Lay {this} down in a JSON record
I want {this} stored as a JSON object
Would you please produce JSON from {this}
Package {this} as a JSON record
Capture {this} in a JSON object
For my files, note {this} as JSON
Present {this} in the JSON format
JSON of the following, please
A JSON object is what I need from {this}
Answer with a JSON object for {this}
Let me have {this} as a JSON object
Take {this} and make a JSON record of it
Describe {this} by means of a JSON object
Return nothing but JSON for {this}
Reply in JSON
Have {this} written out as JSON
Represent {this} as JSON
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
whose keys are {keys}
having the keys {keys}
with nothing but the keys {keys}
using {keys} as the keys
with keys called {keys}
(with the keys {keys})
containing the fields {keys}
and give it the keys {keys}
with the attributes {keys}
so that the keys are {keys}
made up of the keys {keys}
with the key names {keys}
and take {keys} as the keys
with keys for {keys}
limited to the keys {keys}
with only these keys: {keys}
with a value for each of {keys}
and let the keys be {keys}
(the keys are {keys})
in which {keys} are the keys
with entries for {keys}
that uses the keys {keys}
- keys: {keys}
with properties named {keys}
and keep to the keys {keys}
arranged under the keys {keys}
(fields: {keys})
the keys being {keys}
and fill in the keys {keys}
with fields called {keys}
that contains {keys} as keys
consisting of the fields {keys}
with the field names {keys}
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
Gather {members} in an object called {group}
Wrap {members} in an object named {group}
{group} should be an object that contains {members}
I would like {members} to sit inside {group}
Have {members} in a sub-object called {group}
Tuck {members} into an object under the key {group}
The fields {members} go inside {group}
Combine {members} into one object, named {group}
Under {group}, nest an object with {members}
{members} should be keys of an inner object called {group}
Use a nested object {group} for {members}
Please group {members} together as {group}
Hold {members} in an object within the record, named {group}
Create an object {group} and put {members} there
I want an object {group} around {members}
Do not leave {members} at the top level; they go in {group}
Set {members} one level deeper, in an object called {group}
Inside the record, an object {group} should hold {members}
Join {members} under {group}
Only {members} belong inside the object {group}
Give {members} an object of their own, {group}
Enclose {members} in an object with the name {group}
Make {members} the contents of an object called {group}
Fold {members} into {group}, an object of its own
The object {group} is to contain {members}
Add an object called {group} that takes in {members}
File {members} under {group}, as an object
Pack {members} away in a nested object {group}
Assign {members} to an inner object with the key {group}
For {members}, use an object inside the object: {group}
Have one key {group} whose value is an object with {members}
{group} is the parent key of {members}
""")

MISSING = phrasings("""
Use null for what is missing
Put null where nothing is known
If a value is not given, use null
Whatever is not told gets the value null
Write null for unknown values
Missing values are null
Unknown values should be null
Anything missing should be null
If something is unknown, write null
Fill the gaps with null
Where a value is missing, put null
Use null if there is no value
Leave nothing out: unknown keys get null
Null stands for whatever is unknown
Set a key to null when the text does not say
Do not guess; use null instead
If the text does not mention a key, its value is null
Keys without a value should be null
Give null to every key that is not mentioned
I want null wherever the value is not known
Please put null if nothing is said about a key
For anything I did not mention, write null
Mark missing values with null
Keys that I say nothing about are null
Should a value be absent, set it to null
No value means null
When in doubt about a value, null
A key with no information gets null
Let unknown values be null
Do not invent anything, missing values become null
Whenever a fact is lacking, null goes there
In place of missing facts, write null
Keep the key and write null if its value is unknown
Not mentioned means null
Empty fields are to be null
Have null for each key I gave no value for
Show what is not known as null
Any field that cannot be filled is null
""")

ONE_LINE = phrasings("""
All on one line
Put it on a single line
On one line, please
Keep the JSON on one line
Write it in one line
Use a single line
Compact, on one line
No line breaks in the JSON
Everything in one line, please
I want it on just one line
Do not break it over several lines
Without line breaks, please
It should fit on one line
Print it on a single line
Please use one line only
Make it a single line
In one line
No indentation, one line
The whole thing goes on one line
I need it without line breaks
One line is enough
Return it as a single line
The JSON should not be spread over several lines
Compact form, without line breaks
The output has to be one line
Squeeze it into one line
Give it to me in one line
It must be a single line of JSON
Leave out the line breaks
Do not indent it, use one line
Just one line of JSON
Have all of it on a single line
Please do not start new lines
As one line
Lay it out in one line
Compact JSON, please, in a single line
Let it take up only one line
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
Return {this} as an array of JSON objects
I would like {this} as a JSON array
Build a JSON array from {this}
Output a JSON array of objects for {this}
Render {this} as a JSON array, one object per entry
Would you put {this} into a JSON array
Store {this} in an array of JSON objects
{this} should become a JSON array of objects
Encode {this} as JSON, an array with one object each
For each entry in {this}, write an object into a JSON array
Express {this} as a JSON list
Produce a JSON array from {this} in which each object is one entry
Collect {this} in one JSON array
Could you give {this} as a JSON list of objects
Gather {this} into an array of objects, in JSON
My program needs {this} as a JSON array
What I need is a JSON array of {this}
Represent {this} as JSON objects in one array
Note {this} as a list of objects in JSON
Have {this} written as a JSON array
I want one JSON object per entry of {this}, all in an array
Package {this} as a JSON array of objects
From {this}, make an array of JSON objects
Take {this} and produce a JSON array
Would you please present {this} as an array in JSON
Arrange {this} as objects inside a JSON array
Capture {this} in a JSON array, an object for every entry
Answer with a JSON array for {this}
Bring {this} into a JSON array
Reply with nothing but a JSON array of {this}
JSON array of {this}, please
Extract {this} into a JSON array of objects
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
Lay {this} out in a table
Render {this} as a Markdown table
I would like {this} in a table
Build a table from {this}
Tabulate {this}
Would you turn {this} into a table
Organise {this} in a table
{this} should go into a table
Return {this} as a Markdown table
From {this}, make a table in Markdown
Present {this} in table form
Produce a Markdown table with {this}
Could you arrange {this} as a table
Express {this} as a table in Markdown
Collect {this} in a table
What I need is a table of {this}
List {this} in a table
Output a table of {this}
Enter {this} into a table
For an overview, put {this} into a Markdown table
Record {this} in a Markdown table
I want to see {this} as a table
Have {this} laid out as a Markdown table
Take {this} and make a table of it all
Would you please tabulate {this}
Create a table that shows {this}
Note {this} down in a table
Convert {this} into table form
Set up a table of {this}
Markdown table of {this}, please
Fill a table with {this}
Reply with a Markdown table of {this}
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
having the columns {keys}
with the column headings {keys}
using {keys} as the columns
with nothing but the columns {keys}
(with the columns {keys})
where the columns are {keys}
made up of the columns {keys}
with columns for {keys}
and give it the columns {keys}
with columns called {keys}
that uses the headings {keys}
(headings: {keys})
the columns being {keys}
in the columns {keys}
and let the columns be {keys}
with a header row of {keys}
with {keys} in the top row
with the titles {keys} over the columns
and take {keys} as the headings
containing the columns {keys}
split into the columns {keys}
so that the columns are {keys}
- columns: {keys}
with columns named {keys}
(the columns are {keys})
with only these columns: {keys}
consisting of the columns {keys}
with {keys} as column names
under the column titles {keys}
in which {keys} are the columns
with {keys} as its headings
and label the columns {keys}
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
Render {this} as a bullet list
I would like {this} as bullets
Bring {this} into bullet form
Would you list {this} in bullet points
{this} should be a bullet list
Present {this} as a bulleted list
Return {this} as a Markdown list with dashes
Lay {this} out as bullet points
Put a bullet before each entry of {this}
Organise {this} as a bullet list
Write {this} one below the other with bullets
What I want is a bullet list of {this}
Output {this} as bullets
From {this}, make bullet points
Arrange {this} in a list with bullets
Could you express {this} as a bulleted list
Note {this} down as bullet points
Format {this} as a bullet list
Give each entry of {this} a bullet
Collect {this} in a list with dashes
I want {this} in the form of bullet points
Have {this} listed as bullets
Split {this} into bullets, one for each item
Produce a Markdown bullet list from {this}
Would you please make a bulleted list out of {this}
Take {this} and write a bullet list
Start each entry of {this} on a new line with a dash
Bullet points of {this}, please
Record {this} as a bullet list
Create a dashed list from {this}
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
Render {this} as a numbered list
I would like {this} numbered
Would you number {this} one by one
{this} should be a numbered list
Present {this} as a list with numbers
Return {this} as a numbered Markdown list
Put a number before each entry of {this}
Lay {this} out with numbers, one per line
What I want is a numbered list of {this}
Output {this} as a numbered list
From {this}, make a list with numbers
Arrange {this} in a numbered list
Could you express {this} as a numbered list
Note {this} down with numbers
Format {this} as a list that counts from 1
Give each entry of {this} a number
Collect {this} in a list and number it
I want {this} in the form of a numbered list
Have {this} listed with numbers
Split {this} into numbered lines
Produce a numbered list from {this}
Would you please put numbers in front of {this}
Take {this} and number everything from 1
Start each entry of {this} on a new line with its number
Numbered list of {this}, please
Record {this} as a numbered list
Bring {this} into a numbered list
Count {this} off in a list, beginning with 1
Organise {this} as a list with 1., 2. and so on
Create a numbered list out of {this}
Enumerate {this}
Write {this} one below the other with numbers
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
Render {this} as a checklist with "- [ ]" boxes
I would like a checklist of {this}, with "- [ ]" in front
Would you make {this} a list to tick off, each line with "- [ ]"
{this} should be a checklist with "- [ ]"
Start each line of {this} with "- [ ]"
Give each entry of {this} an empty box, "- [ ]"
Return {this} as Markdown tasks, "- [ ] item"
Format {this} as a task list with "- [ ]" marks
Create a Markdown task list from {this}, using "- [ ]"
I want to tick off {this}, so put "- [ ]" before each
Could you put an open "- [ ]" box in front of each entry of {this}
From {this}, make a checklist that uses "- [ ]"
Present {this} as open tasks, "- [ ]" each
Output {this} as a list in which every line begins with "- [ ]"
Use "- [ ]" to make a checklist out of {this}
Arrange {this} as a checklist, one "- [ ]" line per item
Note {this} as things to tick, with "- [ ]" in front
Lay {this} out as a "- [ ]" task list
Produce a list of {this} with "- [ ]" check boxes
With "- [ ]" before each, list {this}
What I need is a "- [ ]" checklist of {this}
Have {this} listed with unticked boxes, "- [ ]"
Mark each entry of {this} as open with "- [ ]"
Would you please list {this} with "- [ ]" at the start of each line
Take {this} and write "- [ ]" before every one
Collect {this} in a checklist with the mark "- [ ]"
Checklist of {this}, please, with "- [ ]"
Show {this} as a list of tasks, "- [ ]" in front of each
Express {this} as a tick list with "- [ ]"
Bring {this} into checklist form, "- [ ]" and then the item
Record {this} as a to-do list, "- [ ]" first on each line
Organise {this} as boxes to tick: "- [ ]" and the item
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
Add {value} as the {key}
Extend it with the {key} {value}
Enter {value} under {key}
I would like to add the {key}, {value}
Would you add {key}: {value}
Insert the {key} {value}
There is also a {key}: {value}
Give it a {key} too, with the value {value}
Another key is needed: {key} is {value}
Store the {key} in it as well, {value}
Please put {key} in, with {value}
It also has the {key} {value}
New key {key}: {value}
Write the {key} in too: {value}
Could you include {key} with the value {value}
Note the {key} as well: {value}
Complete it with the {key} {value}
We also know the {key}: {value}
Please include the {key}, namely {value}
What is still missing is the {key}, {value}
Append {key} with the value {value}
Also record that the {key} is {value}
Let it have the {key} {value} too
The {key} was left out; it is {value}
One more fact: the {key} is {value}
I would like a {key} in it: {value}
Would you please put in {value} for a new key {key}
Plus {key}: {value}
A {key} should be added, {value}
Supply the {key} {value}
Make room for the {key} too: {value}
At the end, add {key} with {value}
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
Replace the {key} with {value}
Edit the {key} so that it is {value}
Would you make the {key} {value}
I would like the {key} to be {value}
Let the {key} be {value}
Put {value} as the {key}
The {key} has changed to {value}
The {key} is now {value}
Enter {value} for the {key} instead
Please update the {key} to {value}
{value} is the right {key}
Use {value} for the {key}
I made a mistake, the {key} is {value}
The {key} has to be corrected to {value}
Instead of the old {key}, write {value}
Fix the {key}: {value}
Overwrite the {key} with {value}
The {key} needs to be {value}
Write {value} under {key} instead
Adjust the {key} to {value}
Would you please change the {key} so that it reads {value}
The {key} was wrong, {value} is right
New {key}: {value}
Now let {key} have the value {value}
Give the {key} the value {value}
As the {key}, take {value}
I got the {key} wrong; put {value}
Turn the {key} into {value}
The correct {key} is {value}
Have {value} as the {key} now
It turns out that the {key} is {value}
The value of {key} should be {value}
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
Take out the {key}
Cut the {key}
Would you delete the {key}
I would like it without the {key}
Get rid of the {key}
Please drop the {key}
The {key} should be removed
Omit the {key}
Erase the key {key}
Now leave the {key} out
No {key}, please
Throw out the {key}
Could you take off the {key}
We can do without the {key}
Skip the {key}
The {key} is not needed
Everything but the {key}, please
Please remove the key {key}
Exclude the {key}
Do not include the {key}
There should be no {key} in it
I want the {key} gone
Give me the same without the {key}
Would you please leave off the {key}
Clear away the {key}
Now delete the key {key} and its value
The key {key} has to go
The {key} does not belong there
Keep all except the {key}
The {key} is of no use to me
Forget the {key}
Drop the {key} and keep the rest
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
Name the key {value} rather than {key}
The key {key} is to become {value}
Would you rename the key {key} as {value}
I would like the key {key} to be called {value}
Instead of the key {key}, write {value}
From now on the key {key} is {value}
Make the key {key} read {value}
Have the key {value} in place of {key}
Could you call the key {key} {value}
Swap the key name {key} for {value}
Put {value} where the key {key} stands
Keep the value, but name its key {value} instead of {key}
Rename {key}: the key is now {value}
Switch the key {key} to {value}
Please use {value} in place of the key {key}
{value} is a better name for the key {key}
The key {key} needs a new name, {value}
Relabel the key {key} as {value}
Turn the key {key} into {value}
For the key {key}, use the name {value}
Let us call the key {value}, not {key}
Please change the name of the key {key} to {value}
I want {value} as the key where it says {key}
New name for the key {key}: {value}
The name {key} should be {value} instead; the value stays
Would you write {value} instead of {key} as the key
The key should not be {key} but {value}
Only rename the key {key}; make it {value}
My program expects the key {value}, not {key}
The field {key} should be called {value}
Rename the field {key} to {value}
What is now called {key} should be the key {value}
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
Render it as a table
Convert that to a Markdown table
Would you turn it into a table
I would like to see that in a table
Present it in table form
Could you lay it out as a table
Tabulate it
Return it as a Markdown table
Write that down as a table
Now the same thing in a table
Express that as a table
Let me see it as a table
Put the same into a Markdown table
This time in a table, please
Use a table instead
Switch to a table
A table would be better
It should be a table
Rewrite that as a Markdown table
Format it as a table
Could you tabulate that for me
No, I need a table
Arrange that in a table
Produce a table from it
In table form, please
I want that in Markdown, as a table
Replace it by a table
Output that as a table
Please bring that into a table
Would you please tabulate it
I need that in a table
Create a Markdown table from that
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
Render it as a bullet list
Convert that to bullet points
Would you turn it into bullets
I would like to see that in bullet points
Present it as a bulleted list
Could you lay it out with bullets
Use bullets instead
Return it as a bullet list
Write that down in bullet points
Now the same thing with bullets
Express that as a bullet list
Let me see it as bullets
List it with dashes
One bullet for each, please
Switch to bullets
Bullet points would be better
It should be a bullet list
Rewrite that as a list with bullets
Format it as bullet points
Could you list that in bullets for me
No, I need bullet points
Arrange that as bullets
Produce a bullet list from it
In bullet form, please
I want that in Markdown, as bullets
Replace it by a bullet list
Output that as bullet points
Please bring that into a bullet list
Put a dash before each instead
This time with bullets, please
Create a bullet list from that
Would you please use bullet points
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
Render it as a numbered list
Convert that to a list with numbers
Would you put numbers in front
I would like to see them numbered
Present it as a list that is numbered
Could you lay it out with numbers
Use numbers instead
Return it as a numbered list
Write a number before each item
Now the same list numbered
Express that as a numbered list
Let me see it with numbers
List them as 1., 2., 3. and so on
Each item should have a number
Switch to numbers
Numbers would be better
It should be a numbered list
Rewrite that as a list with numbers
Format it as a numbered list
Could you give each item a number
No, I need numbers in front
Count the items off, starting with 1
Produce a numbered list from it
In numbered form, please
I want the dashes replaced by numbers
Replace the bullets with numbers
Output that as a numbered list
Please bring that into a numbered list
Put numbers where the dashes are
Have the items numbered for me
Create a numbered list from that
Enumerate the items
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
Render it as JSON
Convert that to JSON
Would you turn it into JSON
I would like to see that in JSON
Present it in the JSON format
Could you encode that as JSON
Use JSON instead
Return it as JSON
Write that down as JSON
Now the same thing in JSON
Express that in JSON
Let me see it as JSON
Store that as JSON
This time in JSON, please
Switch to JSON
JSON would be better
It should be JSON
Rewrite that as JSON
Format it as JSON
Could you give that back as JSON
No, I need JSON
Package that as JSON
Produce JSON from it
In JSON form, please
I want that in JSON
Replace it by JSON
Output that as JSON
Please bring that into JSON
My program needs it in JSON
I need it as JSON
Create JSON from that
Would you please write it in JSON
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
Insert another row: {value}
Enter {value} as one more row
Would you add this row: {value}
I would like one more row with {value}
Extend the table by {value}
There is another row: {value}
Include a row for {value}
The table also needs {value}
Please put {value} at the bottom
New row: {value}
Could you append {value}
Write {value} in a new row below
Add this to the table: {value}
We also have {value}
Below that, add {value}
Another one: {value}
A row is missing: {value}
Complete the table with {value}
Please append one row with {value}
Add {value} as the last row
Let there be one more row, {value}
The next row is {value}
Put {value} into the table too
Record {value} in another row
I have one more for the table: {value}
Now include {value} as well
Would you please enter {value} in the table
Make a new row for {value}
Add to the end of the table: {value}
Row to add: {value}
Continue the table with {value}
Note {value} in the table as well
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
Cut the row of {key}
Erase the row with {key}
Would you delete the row for {key}
I would like the table without {key}
Get rid of the row for {key}
Shorten the table by the row of {key}
The row of {key} should be removed
Omit the row with {key}
Could you take {key} off the table
Now leave out the row of {key}
No row for {key}, please
Throw out the row with {key}
{key} does not belong in the table
We can do without {key}
Skip the row of {key}
The row for {key} is not needed
Everything but the row of {key}, please
Please remove {key} from the table
Exclude {key}
Do not list {key}
There should be no row for {key}
I want the row of {key} gone
Give me the table without the row of {key}
Would you please remove the row for {key}
Clear the row with {key}
Keep all rows except that of {key}
{key} is no longer needed in the table
The row that begins with {key} has to go
Pull the row of {key} from the table
Drop {key} and keep the other rows
Eliminate the row for {key}
Delete the entry for {key}
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
Replace the {column} of {key} with {value}
Edit the {column} of {key} so that it is {value}
Would you make the {column} of {key} {value}
I would like the {column} of {key} to be {value}
Let the {column} of {key} be {value}
Put {value} in the {column} column for {key}
The {column} of {key} has changed to {value}
For {key}, the {column} is now {value}
Enter {value} as the {column} for {key}
Write {value} under {column} in the row of {key}
In the row {key}, replace the {column} by {value}
Use {value} for the {column} of {key}
I made a mistake: for {key} the {column} is {value}
Could you let the {column} of {key} be {value}
{key} has the {column} {value}, not the old one
Fix the {column} of {key}: {value}
Overwrite the {column} of {key} with {value}
The {column} for {key} needs to be {value}
{value} is the right {column} for {key}
Adjust the {column} of {key} to {value}
Would you please set the {column} in the row of {key} to {value}
The {column} in the row of {key} was wrong, {value} is right
New {column} for {key}: {value}
Give {key} the {column} {value}
As the {column} of {key}, take {value}
I got the {column} of {key} wrong; put {value}
Turn the {column} of {key} into {value}
The correct {column} of {key} is {value}
Have {value} as the {column} of {key} now
It turns out that {key} has {value} as its {column}
Where it says {key}, the {column} should read {value}
Only change the {column} of {key}; make it {value}
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
Cut the {key} column
Erase the column {key}
Would you delete the {key} column
I would like the table without the {key} column
Get rid of the column {key}
Nobody needs the {key} column
The column {key} should be removed
Omit the column {key}
Could you leave off the {key} column
Now leave the column {key} out
No {key} column, please
Throw out the {key} column
The {key} column does not belong there
We can do without the column {key}
Skip the {key} column
The column {key} is not needed
Every column but {key}, please
Please remove {key} from the columns
Exclude the {key} column
Do not show the column {key}
There should be no column {key}
I want the {key} column gone
Give me the table without the column {key}
Would you please remove the column {key}
Clear away the {key} column
Keep all columns except {key}
The column headed {key} has to go
The table works without the {key} column
Drop {key} and keep the other columns
Eliminate the column {key}
Hide the {key} column
The table should no longer show {key}
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
Order the items from A to Z
Rearrange it in alphabetical order
Would you sort it by letter
I would like it sorted alphabetically
Put it in order from A to Z
List them alphabetically
Could you put it in alphabetical order
Sort the items by their first letter
Please arrange the list from A to Z
A to Z, please
Make it alphabetical
The list should be in alphabetical order
Begin with A and end with Z
Let the items go from A to Z
Return it sorted from A to Z
Reorder the list alphabetically
I want them in the order of the alphabet
The order should be alphabetical
Now alphabetically
Sorted by letter, please
Organise it alphabetically
Would you please order the list alphabetically
Give me the list in alphabetical order
Have the items sorted alphabetically
Use alphabetical order
Order them by first letter
The same list, but sorted from A to Z
It should be sorted by the alphabet
Lay the list out alphabetically
Show the items from A to Z
Could you alphabetize it
Sort all of it alphabetically
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
Insert {value} at the end
Enter {value} on the list
Would you add {value}
I would like to add {value}
Extend the list by {value}
There is also {value}
Also include {value}
The list also needs {value}
Please put {value} at the bottom
New on the list: {value}
Could you append {value} to it
Write {value} below that
Add this to the list: {value}
We also have {value}
At the end, put {value}
Another one: {value}
Still missing: {value}
Complete the list with {value}
Please append {value} at the end
Let the list have {value} too
I want {value} on the list as well
Plus {value}
Note {value} on the list
Do not forget {value}
I left out {value}; add it
Would you please include {value}
Make room for {value} on the list
Add to the end: {value}
To be added: {value}
Continue the list with {value}
Record {value} there as well
Also write down {value}
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
Get rid of {value}
Erase {value}
Would you delete {value}
I would like the list without {value}
Take {value} out
Please drop {value} from the list
Remove {value} from it
Omit {value}
Could you take off {value}
Now leave out {value}
No {value}, please
Throw out {value}
{value} should not be on it
We can do without {value}
Skip {value}
{value} can be removed
Everything but {value}, please
Please remove {value} again
Exclude {value}
Do not list {value}
There should be no {value} on the list
I want {value} gone
Give me the list without {value}
Would you please take {value} off the list
Clear {value} from the list
Keep all except {value}
{value} can come off
We no longer need {value}
{value} has to go
Pull {value} from the list
Drop {value} and keep the rest
Delete the item {value}
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
Return {this} as JSON
I would like {this} in JSON
Recast {this} as JSON
Build JSON from {this}
Would you turn {this} into JSON
{this} should become JSON
Emit {this} as JSON
Encode {this} as JSON
Express {this} in JSON
Reformat {this} as JSON
Translate {this} to JSON
What I want is {this} as JSON
Produce JSON from {this}
From {this}, make JSON
Present {this} in JSON
Could you carry {this} over to JSON
My program reads JSON, so convert {this}
Take {this} and write JSON
I want {this} as JSON, one object for each row
Would you please encode {this} in JSON
Represent {this} as a JSON array
Have {this} converted to JSON
Package {this} as JSON
JSON from {this}, please
Rework {this} as a JSON array
Transform {this} into JSON
Give the rows of {this} as JSON objects
Answer with {this} in JSON
Create a JSON array of objects from {this}
Can you render {this} in JSON
Bring {this} into JSON
Save {this} as JSON
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
Return {this} as a Markdown table
I would like {this} in a table
Render {this} as a table
Build a table from {this}
Would you turn {this} into a table
{this} should become a Markdown table
Output {this} as a table
Reformat {this} as a Markdown table
Express {this} as a Markdown table
Redo {this} as a table
Translate {this} to a Markdown table
What I want is {this} as a table
Produce a Markdown table from {this}
From {this}, make a table
Present {this} in a table
Could you move {this} over into a table
I cannot read {this} well, so make it a table
Take {this} and write a Markdown table
I want to see {this} in table form
Would you please tabulate {this}
Represent {this} as a table
Have {this} converted to a Markdown table
Put {this} in a Markdown table
Markdown table from {this}, please
Arrange {this} as a table
Transform {this} into a table
Give the contents of {this} in a table
Answer with {this} as a table
Create a Markdown table from {this}
Can you display {this} as a table
Bring {this} into a table
Organise {this} as a Markdown table
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
Return {this} as a bullet list
I would like {this} in bullet points
Render {this} as a bullet list
Build a bullet list from {this}
Would you turn {this} into bullet points
{this} should become a bullet list
Output {this} as bullets
Lay {this} out in bullets
Express {this} as a list with bullets
List the keys and values of {this} with bullets
Translate {this} to bullet points
What I want is {this} as a bullet list
Produce a bulleted list from {this}
From {this}, make bullets
Present {this} as bullet points
Could you bring {this} over into a bullet list
I cannot read {this} well, so make it bullet points
Take {this} and give it back in bullets
I want to see {this} as a list with dashes
Would you please list {this} in bullets
Represent {this} as a bullet list
Have {this} converted to bullets
Put {this} in a bullet list
Bullet points from {this}, please
Arrange {this} as bullets
Transform {this} into a bullet list
Give each key of {this} a bullet
Answer with {this} as bullet points
Create a bullet list from {this}
Can you display {this} as bullets
Bring {this} into bullet points
Organise {this} as a bulleted list
""")
