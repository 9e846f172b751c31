import { describe, expect, it } from '@jest/globals';
import { xmlTemplate } from 'millrace/internals';
import { z } from 'zod';

describe('xmlTemplate', () => {
  it('shows each property as an element, its description as an attribute', () => {
    const schema = z.object({
      sentiment: z.enum(['good', 'bad']).describe('The "mood" & tone'),
      confidence: z.number().describe('Between 0 and 1'),
      answer: z.string(),
      sources: z.array(z.string().describe('an address')).describe('Where it is from'),
      author: z.object({ name: z.string(), age: z.int().nullable() }),
      sure: z.boolean(),
      marks: z.record(z.string(), z.number()),
      'first seen': z.string().optional(),
    });
    expect(xmlTemplate(z.toJSONSchema(schema))).toBe(
      [
        '<output>',
        '  <sentiment description="The &quot;mood&quot; &amp; tone (one of: good, bad)"></sentiment>',
        '  <confidence description="Between 0 and 1 (a number)"></confidence>',
        '  <answer></answer>',
        '  <sources description="Where it is from (a list: one item element for each entry)">',
        '    <item description="an address"></item>',
        '  </sources>',
        '  <author>',
        '    <name></name>',
        '    <age description="a whole number"></age>',
        '  </author>',
        '  <sure description="true or false"></sure>',
        '  <marks description="one entry element for each name">',
        '    <entry name="…" description="a number"></entry>',
        '  </marks>',
        '  <entry name="first seen"></entry>',
        '</output>',
      ].join('\n'),
    );
  });

  it('ends where a schema leads back to itself', () => {
    const node = { type: 'object', properties: { next: { $ref: '#' } } };
    const lines = xmlTemplate(node, 'node').split('\n');
    expect(lines[0]).toBe('<node>');
    expect(lines.length).toBeLessThan(30);
  });
});
