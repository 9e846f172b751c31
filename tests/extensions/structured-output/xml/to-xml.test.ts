import { describe, expect, it } from '@jest/globals';
import { toXml } from 'millrace/internals';

describe('toXml', () => {
  it('writes nested objects and lists as indented elements, with escaped text', () => {
    const input = {
      question: 'Is 1 < 2 && "so"?',
      limit: 3,
      deep: true,
      left: undefined,
      nothing: null,
      tags: ['a', 'b & c'],
      empty: [],
      people: [{ name: 'Ann', 'first seen': '2026' }],
    };
    expect(toXml(input)).toBe(
      [
        '<input>',
        '  <question>Is 1 &lt; 2 &amp;&amp; "so"?</question>',
        '  <limit>3</limit>',
        '  <deep>true</deep>',
        '  <nothing>null</nothing>',
        '  <tags>',
        '    <item>a</item>',
        '    <item>b &amp; c</item>',
        '  </tags>',
        '  <empty></empty>',
        '  <people>',
        '    <item>',
        '      <name>Ann</name>',
        '      <entry name="first seen">2026</entry>',
        '    </item>',
        '  </people>',
        '</input>',
      ].join('\n'),
    );
  });

  it('keeps blanks at the ends and control characters, as references', () => {
    expect(toXml(' a\r\nb\u0000\n', 'text')).toBe('<text>&#32;a&#13;\nb&#0;&#10;</text>');
  });

  it('lets no name or text open or close an element', () => {
    const xml = toXml({ 'a"><b>': '</input><input>' });
    expect(xml).toBe('<input>\n  <entry name="a&quot;&gt;&lt;b&gt;">&lt;/input&gt;&lt;input&gt;</entry>\n</input>');
  });

  it.each([[{ at: new Date(0) }], [{ big: 1n }], [{ list: [Number.NaN] }]])('refuses what is not JSON: %p', (value) => {
    expect(() => toXml(value)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  });
});
