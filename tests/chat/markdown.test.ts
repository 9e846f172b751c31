import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type MarkNode, markdownOf, safeAddress, visibleText } from 'millrace/internals';
import { prose, timesAsLong } from '../processor-time.ts';

/** As HTML would be written down, for short expectations. */
function written(nodes: readonly MarkNode[]): string {
  return nodes
    .map((node) => {
      if (typeof node === 'string') return node;
      const { tag, children, ...more } = node;
      const members = Object.entries(more).map(([name, value]) => ` ${name}=${value}`);
      return `<${tag}${members.join('')}>${written(children)}</${tag}>`;
    })
    .join('');
}

/** On a clock that stands still: the budget of time is never used up. */
const shown = (text: string) => written(markdownOf(text, () => 0));

function elementsOf(nodes: readonly MarkNode[]): readonly Exclude<MarkNode, string>[] {
  return nodes.flatMap((node) => (typeof node === 'string' ? [] : [node, ...elementsOf(node.children)]));
}

describe('Markdown of the chat page', () => {
  it.each([
    ['a *b* **c** ~~d~~ `e`', '<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>'],
    [
      '## a\n\n##### b\n\n### c\n\n# d\n\n> # e',
      '<h3>a</h3><h4>b</h4><h4>c</h4><h3>d</h3><blockquote><p><strong>e</strong></p></blockquote>',
    ],
    ['one\ntwo', '<p>one<br></br>two</p>'],
    ['- a\n  - b\n- c', '<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>'],
    ['3. a\n4. b', '<ol start=3><li>a</li><li>b</li></ol>'],
    ['- [x] a\n- [ ] b', '<ul><li><input checked=true></input>a</li><li><input checked=false></input>b</li></ul>'],
    ['> a', '<blockquote><p>a</p></blockquote>'],
    ['a\n\n---\n\nb', '<p>a</p><hr></hr><p>b</p>'],
    ['```ts title\nlet a;\n```', '<pre language=ts>let a;</pre>'],
    ['```\nhalf', '<pre language=>half</pre>'],
    [
      '| a | b |\n| - | -: |\n| 1 | 2 |',
      '<table><thead><tr><th>a</th><th align=right>b</th></tr></thead><tbody><tr><td>1</td><td align=right>2</td></tr></tbody></table>',
    ],
    ['[a](https://a.example/?b=c&amp;d)', '<p><a href=https://a.example/?b=c&d>a</a></p>'],
    ['https://a.example', '<p><a href=https://a.example/>https://a.example</a></p>'],
    ['1 &lt; 2 &amp;&amp; &#65;&#x42;', '<p>1 < 2 && AB</p>'],
    ['a \\*b\\*', '<p>a *b*</p>'],
  ])('%j', (text, expected) => {
    expect(shown(text)).toBe(expected);
  });

  it.each([
    ['<script>alert(1)</script>', '<p><script>alert(1)</script></p>'],
    ['a <b onclick=x>b</b>', '<p>a <b onclick=x>b</b></p>'],
    ['a<br>b', '<p>a<br></br>b</p>'],
    ['[a](javascript:alert(1))', '<p>a</p>'],
    ['[a](java&#115;cript:alert(1))', '<p>a</p>'],
    ['[a](data:text/html,b)', '<p>a</p>'],
    ['[a](/relative)', '<p>a</p>'],
    ['![a](https://a.example/b.png)', '<p><a href=https://a.example/b.png>Image: a</a></p>'],
    ['![a](javascript:b)', '<p>Image: a</p>'],
    ['<https://a.example>', '<p><a href=https://a.example/>https://a.example</a></p>'],
    ['```html" onload="x\na\n```', '<pre language=html>a</pre>'],
  ])('keeps %j harmless: what looks like elements here is text', (text, expected) => {
    expect(shown(text)).toBe(expected);
  });

  it('makes no element but of the closed set, and no address but of the web and of mail, of any text', () => {
    const pieces = fc.constantFrom(
      ...[
        '<script>',
        '</script>',
        '<img src=x onerror=y>',
        '[a](',
        'javascript:',
        'data:',
        'https://a.example',
        ')',
        '![',
        ']',
      ],
      ...[
        '`',
        '```',
        '\n',
        '\n\n',
        '> ',
        '- ',
        '1. ',
        '|',
        '---',
        '*',
        '_',
        '&#106;',
        '&colon;',
        '\u001b[1m',
        '\u202e',
        'a',
      ],
    );
    const tags =
      'p h3 h4 h5 h6 strong em del code pre blockquote ul ol li a br hr table thead tbody tr th td input'.split(' ');
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 30 }), (parts) => {
        for (const { tag, href } of elementsOf(markdownOf(parts.join('')))) {
          expect(tags).toContain(tag);
          if (href !== undefined) expect(href).toMatch(/^(https?:\/\/|mailto:)/);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('takes text that is long, or nests deep, as a paragraph', () => {
    const deep = markdownOf('> '.repeat(20_000));
    expect(elementsOf(deep).length).toBeLessThan(100);
    const long = `**${'x'.repeat(200_001)}**`;
    expect(markdownOf(long)).toEqual([{ tag: 'p', children: [long] }]);
  });

  it.each([
    ...[
      'a.',
      '_a_',
      '*a',
      '[',
      '![a](',
      '`',
      '``a',
      '<a ',
      'a@',
      '~~a',
      '&#1',
      '- a\n',
      '> ',
      '|a',
      '| a |\n',
      '1. ',
      'word and ',
      '\n',
    ],
    ...[
      'a\n\n',
      '# a\n',
      '```\n',
      '[a]: b\n',
      '**a**\n',
      '  - a\n',
      '\\',
      'https://a.b/',
      '<!--',
      '\t',
      '(',
      '*_',
      '$ ',
    ],
  ])('R-18 shows 200,000 characters of %j in linear time', async (piece) => {
    const base = () => markdownOf(prose(200_000));
    for (const text of [piece.repeat(200_000 / piece.length), `a${piece.repeat(190_000 / piece.length)}b@`])
      expect(await timesAsLong({ run: () => markdownOf(text), base, most: 400 })).toBeLessThan(400);
  });

  it('R-18 shows a long text as a short one, and a block that is too long as text', () => {
    const part = '# a\n\n- b\n- c\n\n  d\n\n```js\nx\n\ny\n```\n[e] and **f**\n\n';
    const times = 80;
    const long = `${part.repeat(times)}[e]: https://a.example/\n`;
    expect(long.length).toBeGreaterThan(2_500);
    const one = shown(`${part}[e]: https://a.example/\n`);
    expect(shown(long)).toBe(one.repeat(times));
    const spaces = `a${' '.repeat(100_000)}b`;
    expect(shown(`**x**\n\n${spaces}\n\n**y**`)).toBe(
      `<p><strong>x</strong></p><p>${spaces}</p><p><strong>y</strong></p>`,
    );
  });

  it('lets links lead to the web and to mail only', () => {
    expect(safeAddress('HTTPS://A.example/b')).toBe('https://a.example/b');
    expect(safeAddress('mailto:a@b.example')).toBe('mailto:a@b.example');
    for (const address of ['javascript:x', ' javascript:x', 'vbscript:x', '//a.example', 'file:///x', 'https://', '/a'])
      expect(safeAddress(address)).toBeUndefined();
  });

  it('shows control characters and characters that turn text around', () => {
    expect(visibleText('\u001b[31mred\u0000\u007f\u009b')).toBe('␛[31mred␀␡⟨U+009B⟩');
    expect(visibleText('\u202egnp.exe\u2069')).toBe('⟨U+202E⟩gnp.exe⟨U+2069⟩');
    expect(visibleText('a\tb\r\nc\u200fd')).toBe('a\tb\nc\u200fd');
  });
});
