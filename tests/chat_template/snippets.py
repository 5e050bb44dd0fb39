"""Small templates, one for each rule of the language that a chat template may lean on.

They are rendered with the names of CONTEXT; None is expected where jinja2 refuses.
"""

CONTEXT = {
    "text": "Hello, wörld! ",
    "lines": "a\nb\r\n\nc",
    "number": 7,
    "negative": -3,
    "real": 2.5,
    "truth": True,
    "nothing": None,
    "empty": [],
    "letters": ["b", "A", "c", "a"],
    "numbers": [3, 1, 2, 10],
    "nested": [[1, 2], [3]],
    "item": {"name": "x", "items": [1], "values": 2, "b": {"c": [{"d": "deep"}]}, "copy": 1},
    "people": [
        {"name": "Zoe", "age": 30, "team": "red"},
        {"name": "adam", "age": 25, "team": "blue"},
        {"name": "Bob", "team": "red"},
    ],
    "emoji": "a😀é\u0301ß",
}

EXPRESSIONS = r"""
text|trim|length
text ~ number ~ real ~ truth ~ nothing ~ empty
text.strip('! ')
text.split()
'a,b,,c'.split(',')
'a,b,,c'.split(',', 2)
' a  b c '.split(None, 1)
' a  b c '.rsplit(None, 1)
'a--b--c'.rsplit('--', 1)
'abc'.split('')
'abc'[1], 'abc'[-1], 'abc'[5]
emoji|length, emoji[1], emoji[::-1], emoji|upper, emoji|list
'ǆ ŉ ﬁ İ ΑΣ'|upper, 'ǅ İ ΑΣ ς'|lower, 'ǆ ﬁt'|title, 'ß x'|capitalize
"they're bill's".title(), "they're bill's"|title, 'a-b (c) [d] <e> {f}'|title, 'hELLO wORLD'|capitalize
'x'.center(5) ~ '|' ~ 'xy'.center(5, '*') ~ 'x'.ljust(3, '.') ~ 'x'.rjust(3)
'abcabc'.find('c'), 'abcabc'.rfind('c'), 'abc'.find('z'), 'abcabc'.count('bc'), 'abc'.count('')
'abcabc'.index('c', 3), 'aXbX'.replace('X', '-', 1), 'abc'.replace('', '-'), 'abc'.index('z')
'abc'.startswith('ab'), 'abc'.startswith(('x', 'a')), 'abc'.endswith('bc', 2), 'abc'.startswith('b', 1)
'a=b=c'.partition('='), 'a=b=c'.rpartition('='), 'abc'.partition('=')
'prefix-x'.removeprefix('prefix-'), 'x.txt'.removesuffix('.txt'), 'x'.removesuffix('')
lines.splitlines(), lines.splitlines(true)
'abc'.isalpha(), 'ab1'.isalnum(), '12'.isdigit(), ' \t'.isspace(), 'AB'.isupper(), 'aB'.islower(), ''.isalpha()
', '.join(letters), ','.join([]), ','.join([1])
'%s is %d and %5.2f%%' % ('x', 7, 1.5), '%s' % number, '%05d|%-5s|%5s' % (42, 'a', 'b'), '%r' % 'q'
'%s %s' % ('x',)
'{} and {1}'.format(1, 2)
'{} {} {{}}'.format('a', number), '{1}{0}'.format('a', 'b'), '{x}'.format(x=1), '{:.2f} {:03d}'.format(1.5, 7)
'a' 'b' "c"
"\x41\u00e9\U0001F600\101\q\\ \' \" \t|"
7 / 2, 7 // 2, 7 % 3, -7 // 2, -7 % 3, 7 // -2, 7 % -3, 2 ** 10, 2 ** -1, 7.5 // 2, -7.5 % 2
1 / 0
1 % 0
number + real, number * 2, real * 2, 'ab' * 3, [1] * 2, 3 * 'x', -number, +number, --number
1 + 'a'
'a' + 1
[1] + [2, 3], (1,) + (2,), [1] + (2,)
1e3, 1.5e-7, 100000000000000000000.0, 1e16, 123456789012345.6, 0.0001, 0.00001, 1_000, 0x1F, 0b101, 0o17, -0.0
9223372036854775807 + 0
1 < 2 < 3, 1 < 3 < 2, 1 == 1.0, true == 1, 'a' < 'b', [1, 2] < [1, 3], (1, 2) == [1, 2], 'a' == 1
1 < 'a'
nothing < 1
1 in [1, 2], 'ell' in text, 'name' in item, 3 not in numbers, 1 in 'a'
'x' in nothing
not truth, not nothing, truth and number, nothing or 'other', empty and 1, '' or [] or 0
not 1 == 2, not (1 in [2]) and true
'yes' if truth else 'no', 'yes' if nothing, ('a' if false else 'b' if false else 'c')
missing, missing|length, missing|list, missing|default('d'), missing is defined, missing == missing
missing.x
missing + 'a'
missing['x']
missing()
missing|join, missing|trim, missing|upper, missing|tojson
missing|string ~ '.', missing ~ 'x', missing|items|list, missing|first is defined
missing in [1], 1 in missing, 'x' in missing
item.name, item['name'], item.nope, item['nope'] is defined, item.b.c[0].d, item['b']['c'][0]['d']
item.items is callable, item['items'], item.values is string, item['values'], item.copy is defined
item.items()|list|length, item.keys()|list, item.get('name'), item.get('zz'), item.get('zz', 5), item|length
item.pop('name')
letters.append('z')
letters.index('A'), letters.count('b'), letters[0], letters[-1], letters[9] is defined, letters['x'] is defined
letters.0, nested.0.1, letters[1:], letters[:-1], letters[::2], letters[::-1], letters[5:], letters[-2:], letters[1:3:-1]
letters[::0]
numbers[true], numbers[1.0] is defined
letters|sort, letters|sort(case_sensitive=true), letters|sort(reverse=true), numbers|sort, letters|sort(true)
people|sort(attribute='name')|map(attribute='name')|list, people|sort(attribute='team,name')|map(attribute='name')|join('/')
[1, 'a']|sort
letters|unique|list, ['a', 'A', 'b']|unique|list, ['a', 'A']|unique(case_sensitive=true)|list
letters|first, letters|last, empty|first, empty|last is defined, 'abc'|first, 'abc'|last
letters|reverse|list, 'abc'|reverse, numbers|min, numbers|max, letters|max, numbers|sum, people|map(attribute='age', default=1)|sum
letters|join, letters|join(', '), people|join('+', attribute='name'), [1, none, 'x']|join('-')
people|selectattr('age')|map(attribute='name')|list, people|rejectattr('age', 'defined')|list|length
people|selectattr('team', 'equalto', 'red')|list|length, people|selectattr('team', 'in', ['blue'])|map(attribute='name')|first
numbers|select('odd')|list, numbers|reject('gt', 2)|list, [0, 1, '', 'a']|select|list, numbers|map('string')|join, ['a ']|map('trim')|list
letters|map('upper')|list, people|map(attribute='b.c')|list|length, nested|map('first')|list, nested|map(attribute=0)|list
numbers|select('nope')|list
people|groupby('team')|list|length, (people|groupby('team'))[0][0]
item|dictsort|map('first')|list, {'b': 1, 'A': 2, 'c': 0}|dictsort, {'b': 1, 'a': 2}|dictsort(by='value'), {'a': 1, 'b': 2}|dictsort(reverse=true)
'3'|int, '3.7'|int, 'x'|int, 'x'|int(-1), 3.9|int, true|int, '0x1f'|int(base=16), ' 42 '|int, nothing|int, '-5'|int, '1_000'|int
'3'|float, 'x'|float, '1e3'|float, 'x'|float(1.5), 3|float, 'inf'|float
2.5|round, 3.5|round, 2.567|round(2), 2.1|round(0, 'ceil'), 2.9|round(method='floor'), 42|round, -2.5|round, 2.675|round(2), 1234.5|round(-2)
-3|abs, 3.5|abs, negative|abs, -number|abs
'abc'|replace('b', 'X'), 'aaa'|replace('a', 'b', 2), 123|replace('2', 'x')
'a\nb\n\nc'|indent, 'a\nb'|indent(2, true), 'a\n\nb'|indent(2, blank=true), 'a\nb'|indent('> '), 'a\n'|indent
text|upper, text|lower, text|title, text|capitalize, 'a b  c'|wordcount, 1.0|string, nothing|string, [1, 'a']|string
'' |default('x'), ''|default('x', true), nothing|default('x'), nothing|d('x', boolean=true), 0|default(1, true)
'xxaxx'|trim('x'), '\u00a0 a \u2003'|trim, '\x1ca\x1f'.strip()
'<a & "b">'|e, '<'|safe, '<'|safe + '&', 'x<' + '<'|safe, '<'|safe ~ '&', ('<'|safe)|e, ('<' |e)|length
item|tojson, item|tojson(indent=2), [1, 2.0, true, none, 'é"\n']|tojson, {}|tojson(indent=2), []|tojson, 'é😀'|tojson(ensure_ascii=true)
{'b': 1, 'a': [1, {'z': 0}]}|tojson(sort_keys=true), {'b': [1, 2]}|tojson(separators=(',', ':')), {1: 2, none: 3, true: 4, 1.5: 5}|tojson
(1, 2)|tojson, '\x00\x1f\x7f\u2028/'|tojson, 1e22|tojson, 1e-5|tojson, [[], [[]]]|tojson(indent=1), {'a': {}}|tojson(indent=4)
missing|tojson
range(3)|list, range(2, 8, 3)|list, range(5, 0, -2)|list, range(0)|list, range(3)|length, range(-2)|list, range(9)[2], range(3)|sum
range(1000000)
range(0, 5, 0)
dict(a=1, b='x'), dict({'a': 1}, b=2), dict([('k', 'v')])
{'a': 1, 'a': 2}, {1: 'x'}[1], {'k': [1, {'z': none}]}, {}, [], (), (1,), (1, 2), {'a': 1} == {'a': 1.0}, {1: 'a'}[true]
['it\'s', "say \"hi\"", 'both \' "', 'é', '\u200b', '\x00', '\\', '\xa0', '\U0001F600', '\ue000']
namespace(a=1).a, namespace({'x': 2}).x, namespace().zz is defined, namespace(a=1)['a']
number is number, truth is number, truth is boolean, real is float, number is integer, truth is integer, text is string, nothing is none
item is mapping, letters is sequence, text is sequence, item is sequence, missing is sequence, number is iterable, text is iterable, item.items() is sequence
truth is true, 1 is true, truth is sameas true, 1 is sameas 1, nothing is sameas none, number is odd, number is even, number is divisibleby 7
number is eq 7, number is equalto(7), number is gt 3, number is lessthan 3, number is in [7], number is not in [7], number is ne 7, number is ge 7
'abc' is lower, 'ABC' is upper, 'trim' is filter, 'odd' is test, missing is undefined, item.nope is undefined, number is not none, nothing is not defined
text is nope
text|nope
1|length
nothing|length
(letters|map('upper'))|length
number is defined and number > 3, number is defined or missing.x, (missing is defined and missing.x)
letters|join(',')|upper|replace('A', '1'), -1|abs, (-1)|abs, 2 + 3|abs, 'a' ~ 'b'|upper, 'a' + 'b'|upper
(letters|list)[0], (text|trim)[0], 'abc'|list|last|upper, [[1, 2], [3, 4]]|map('last')|sum, {'a': 1}.items()|list, {'a': 1}.values()|list
strftime_now('%Y-%m-%d %H:%M:%S'), strftime_now('%d %b %Y'), strftime_now('%A, %B %-d'), strftime_now('%%')
raise_exception('no')
text.__class__, text['__class__'] is defined, ''.__class__.__mro__
loop, caller is defined
letters|attr('count') is callable, item|attr('name') is defined
[1, 2, 3][0:2], (1, 2, 3)[1:], 'hello'[1:3], 'hello'[-3:], 'hello'[:100], 'hello'[10:]
nothing[0:1]
none == None, True == true, False, None, none
1 if 1 in [1] else 2, [1 if true else 2, 3], {'a': 1 if false else 2}
'a' if missing else 'b', 'a' if empty else 'b', 'a' if ' ' else 'b', 'a' if 0.0 else 'b', 'a' if letters|select('eq', 'zz') else 'b'
"""

TEMPLATES = [
    "  {% if truth %}  \n  yes\n  {% endif %}  \nend\n",
    "a {%- if truth -%}  b  {%- endif -%} c",
    "a\n  {%+ if truth %}\n  b\n  {%+ endif +%}\n c",
    "x {# note #}\n  {# alone #}\ny {#- strip -#} z {#-#} w",
    "{{ 'a' }}\n{{ 'b' }}\n\n",
    "{{- ' a ' -}}  \n  {{- 'b' }} c {{ 'd' -}} \n e",
    "line\r\nnext\rlast\n",
    "{% raw %}\n{{ not }} {% this %}\n{% endraw %}\nafter",
    "a  {%- raw -%}  {{ x }}  {%- endraw -%}  b",
    "{% for x in letters %}{{ loop.index }}/{{ loop.length }}{{ x }}{{ loop.first }}{{ loop.last }}"
    "{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.index0 }}{{ loop.depth }}{% endfor %}",
    "{% for x in letters %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}|{% endfor %}",
    "{% for x in letters %}{{ loop.cycle('odd', 'even') }}{% endfor %}",
    "{% for x in empty %}x{% else %}nothing{% endfor %}{% for x in missing %}x{% else %}none{% endfor %}",
    "{% for x in nothing %}x{% endfor %}",
    "{% for x in numbers if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}e{% endfor %}",
    "{% for k, v in item.items() %}{{ k }}={{ v }};{% endfor %}{% for k in item %}{{ k }} {% endfor %}",
    "{% for k, v in item|items %}{{ k }}{% endfor %}{% for k, v in item|dictsort %}{{ k }}{% endfor %}",
    "{% for (a, b) in [(1, 2), [3, 4], 'xy'] %}{{ a }}-{{ b }} {% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
    "{% for c in 'añ😀' %}[{{ c }}]{% endfor %}",
    "{% for x in numbers %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in numbers %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1, 2] %}{% for y in 'ab' %}{{ loop.index }}{{ x }}{{ y }}{% break %}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set ns.x = 1 %}",
    "{% set text.x = 1 %}",
    "{% if truth %}{% set y = 5 %}{% endif %}{{ y }}{% if nothing %}{% set z = 1 %}{% endif %}{{ z is defined }}",
    "{% for i in [1, 2] %}{% if i == 1 %}{% set y = 5 %}{% endif %}{{ y }}.{% endfor %}",
    "{% set a, b = 1, 2 %}{{ a + b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% set e = 1, %}{{ e }}",
    "{% set a, b = [1] %}",
    "{% set block %}  inner {{ number }}\n{% endset %}[{{ block }}]{{ block|length }}",
    "{% set block | upper | trim %} inner {% set leak = 1 %}{% endset %}{{ block }}{{ leak is defined }}",
    "{% macro m(a, b='d', c=none) %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ m(1) }}{{ m(1, c=2) }}{{ m() }}{{ m(b=1, a=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}",
    "{% macro m(a, b=a ~ 'x') %}{{ b }}{% endmacro %}{{ m('q') }}",
    "{% macro m() %}{{ later }}{% endmacro %}{% set later = 'late' %}{{ m() }}",
    "{% macro down(n) %}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(5) }}",
    "{% macro m() %}{% set inside = 1 %}{{ inside }}{% endmacro %}{{ m() }}{{ inside is defined }}",
    "{% macro box(t) %}[{{ t }}:{{ caller() }}]{% endmacro %}{% call box('x') %}body {{ number }}{% endcall %}",
    "{% macro each(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}"
    "{% call(v, i) each(letters) %}<{{ i }}{{ v }}>{% endcall %}",
    "{% macro m() %}x{% endmacro %}{{ m() ~ m()|upper }}{{ m is callable }}{{ m() is string }}",
    "{% filter upper|trim %} abc {{ number }} {% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}",
    "{% generation %}{{ text }}{% set g = 1 %}{% endgeneration %}{{ g is defined }}",
    "{% if nothing %}a{% elif truth %}b{% elif missing.x %}c{% else %}d{% endif %}",
    "{% if number == 7 and text is string %}1{% endif %}{% if not missing %}2{% endif %}",
    "{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a': {}} }}{{ {'}}': '%}'} }}",
    "{% set it = letters|map('upper') %}{% for x in it %}{{ x }}{% endfor %}-{% for x in it %}{{ x }}{% endfor %}",
    "{% set x = [] %}{% for i in numbers %}{% set x = x + [i] %}{% endfor %}{{ x }}",
    "{% set loop = 5 %}{{ loop }}{% for a in [1] %}{{ loop.index }}{% endfor %}{{ loop }}",
    "{{ '{{' }}{{ '%}' }}{{ \"}}\" }}",
    "{%if truth%}tight{%endif%}{{text|trim}}{{-number-}}",
    "{% if nothing %}{{ text|nope }}{% endif %}ok",
    "{% if truth %}{{ text|nope }}{% endif %}ok",
    "{{ text",
    "{% if truth %}",
    "{% endif %}",
    "{% for x in %}{% endfor %}",
    "{{ 1 + }}",
    "{{ (1 }}",
    "{{ 'open }}",
    "{# open",
    "{% raw %}open",
    "{% nope %}",
    "{% break %}",
    "{{ a.b. }}",
    "{{ $ }}",
    "{% set true = 1 %}",
    "{{ 1 2 }}",
    "{% else %}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% include 'x' %}",
    "{% for a in [1] %}{% macro inner() %}{{ a }}{% endmacro %}{{ inner() }}{% endfor %}",
    "{{ text\n|\ntrim }}{%\nif\ntruth\n%}\nx{% endif %}",
    "  {{ 'a' }}  {% if truth %}\n\n  b{% endif %}\n\n",
    "\n\n{% if truth %}\n\na\n{% endif %}\n\n\n",
    "{% for x in letters -%}\n  {{ x }}\n{%- endfor %}",
]


def parts(line):
    """The expressions between the outermost commas of a line."""
    depth = start = position = 0
    quote = None
    while position < len(line):
        letter = line[position]
        if quote:
            if letter == "\\":
                position += 1
            elif letter == quote:
                quote = None
        elif letter in "\"'":
            quote = letter
        elif letter == "," and depth == 0:
            yield line[start:position]
            start = position + 1
        else:
            depth += (letter in "([{") - (letter in ")]}")
        position += 1
    yield line[start:]


def templates():
    for line in EXPRESSIONS.strip().splitlines():
        # One by one too, so that one refusal does not hide the others.
        expressions = [part.strip() for part in parts(line)]
        if len(expressions) > 1:
            yield "{{ " + line + " }}"
        for expression in expressions:
            yield "{{ " + expression + " }}"
    yield from TEMPLATES
