import { describe, expect, it } from '@jest/globals';
import { fillSchema } from '../../../src/testing/demo-model/fill-schema.ts';
import { filesIn, outcomeOf, spoken } from '../../../src/testing/demo-model/outcome-of.ts';
import { summaryOf } from '../../../src/testing/demo-model/summary-of.ts';
import { zoneOf } from '../../../src/testing/demo-model/zone-of.ts';

describe('outcomeOf', () => {
  it.each([
    ['Error: no such file', 'no such file'],
    ['Tool error: RangeError: x must be positive', 'x must be positive'],
    ['ENOENT: no such file', 'ENOENT: no such file'],
    ['skipped: the turn finished', 'skipped: the turn finished'],
    ['{"error":{"message":"busy"}}', 'busy'],
    ['{"error":"busy"}', 'busy'],
    ['{"success":false,"message":"no"}', 'no'],
    ['{"error":null,"result":1}', undefined],
    ['Errors are listed below', undefined],
    ['84', undefined],
  ])('sees whether “%s” is an error', (content, error) => {
    expect(outcomeOf(content).error).toBe(error);
  });

  it.each([
    ['a.ts:12: x\na.ts:13: y\nsrc/b.ts:1:z', ['a.ts', 'src/b.ts']],
    ['["a.ts","src/b.ts"]', ['a.ts', 'src/b.ts']],
    ['{"matches":[{"path":"a.ts","line":3},{"file":"b.md"}]}', ['a.ts', 'b.md']],
    ['{"result":"a.ts:1: x"}', ['a.ts']],
    ['- a.ts\n- b.ts (2 lines)\n[3 more are left out]', ['a.ts', 'b.ts']],
    ['No matches.', []],
    ['', []],
  ])('finds the files of “%s”', (content, files) => {
    expect(filesIn(outcomeOf(content))).toEqual(files);
  });

  it.each([
    ['{"result":84}', '84'],
    ['{"temperature":18,"windSpeed":3}', 'temperature 18 and wind speed 3'],
    ['["a","b","c"]', 'a, b and c'],
    ['true', 'yes'],
    ['{"result":[]}', 'nothing'],
    ['It rains.\nA lot.', 'It rains. A lot'],
  ])('says “%s” in a sentence', (content, words) => {
    expect(spoken(outcomeOf(content).value)).toBe(words);
  });
});

describe('summaryOf', () => {
  it('tells what a file is about in its own words', () => {
    expect(summaryOf('a.ts', '// Adds numbers.\nexport const add = 1;\nexport class Sum {}\n')).toBe(
      'a.ts has 3 lines and exports add and Sum. Its first comment says: “Adds numbers.”',
    );
    expect(summaryOf('a.py', '1\tdef f():\n2\t    pass')).toBe('a.py has 2 lines and defines f.');
    expect(summaryOf('p.json', '{"name":"x","version":"1.0.0","keys":1}')).toBe(
      'p.json is JSON with 3 keys: name, version and keys. It describes “x” 1.0.0.',
    );
    expect(summaryOf('notes.txt', 'One thing. And another. And a third.')).toBe(
      'notes.txt has 1 line. It begins: “One thing. And another.”',
    );
    expect(summaryOf('a.md', { content: '# T\n\nBody' })).toBe(
      'a.md has 3 lines and is titled “T”. It begins: “Body”.',
    );
    expect(summaryOf('a.md', '')).toBe('a.md is empty.');
  });
});

describe('zoneOf', () => {
  it.each([
    ['Tokyo', 'Asia/Tokyo'],
    ['new york', 'America/New_York'],
    ['São Paulo', 'America/Sao_Paulo'],
    ['San Francisco', 'America/Los_Angeles'],
    ['Paris, France', 'Europe/Paris'],
    ['Europe/Berlin', 'Europe/Berlin'],
    ['India', 'Asia/Kolkata'],
    ['UTC', 'UTC'],
    ['Atlantis', undefined],
  ])('%s is in %s', (place, zone) => {
    expect(zoneOf(place)).toBe(zone);
    if (zone !== undefined)
      expect(new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone).toBeTruthy();
  });
});

describe('fillSchema', () => {
  const material = {
    text: 'It is 18 degrees.',
    outcomes: [outcomeOf('{"city":"Paris","degrees":18,"tags":["a","b"]}')],
  };

  it('takes what the results name, and makes up what it has to', () => {
    const schema = {
      type: 'object',
      properties: {
        city: { type: 'string' },
        degrees: { type: 'integer' },
        tags: { type: 'array', items: { type: 'string' } },
        summary: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/summary' }] },
        kind: { const: 'weather' },
        level: { type: 'integer', minimum: 1, maximum: 5 },
      },
      $defs: { summary: { type: 'object', properties: { text: { type: 'string' }, exact: { type: 'boolean' } } } },
    };
    expect(fillSchema(schema, material)).toEqual({
      city: 'Paris',
      degrees: 18,
      tags: ['a', 'b'],
      summary: { text: 'It is 18 degrees.', exact: true },
      kind: 'weather',
      level: 5,
    });
  });
});
