import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { JournalRecord } from 'millrace';
import { AgentLoop, formatJournal, parseJournal } from 'millrace/internals';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf } from '../core/dead-turn.ts';
import { configOf, randomScript } from '../core/random-turns.ts';
import { turnBench } from '../core/turn-bench.ts';

const bench = turnBench();

function someRecords(): readonly JournalRecord[] {
  deadTurn(bench, [firstCall, answerOf(['count']), intentOf(0), resultOf(0, 'two')]);
  return bench.store.read('t');
}

/** The file of some records with one line changed. */
function fileWith(line: number, change: (text: string) => string): string {
  const lines = formatJournal(someRecords()).split('\n');
  lines[line - 1] = change(lines[line - 1] ?? '');
  return lines.join('\n');
}

describe('a journal file', () => {
  it('has a header and one record a line, the type first and the stamp last', () => {
    const [header, started, ...rest] = formatJournal(someRecords()).split('\n');
    expect(header).toBe('{"format":"millrace-journal","version":1,"taskId":"t","records":5}');
    expect(started).toMatch(/^\{"type":"turn\.started",.*"seq":1,"epoch":0,"at":\d+\}$/);
    expect([rest.length, rest.at(-1)]).toEqual([5, '']);
  });

  it('gives the records of any turn as they were', async () => {
    let count = 0;
    const property = fc.asyncProperty(randomScript, async (script) => {
      const taskId = `t${count++}`;
      const turn = new AgentLoop(configOf(script, bench)).startTurn(question, { taskId, detached: true });
      await turn.settled;
      const records = bench.store.read(taskId);
      const text = formatJournal(records);
      expect(parseJournal(text)).toEqual(JSON.parse(JSON.stringify(records)));
      expect(formatJournal(parseJournal(text))).toBe(text);
      expect(parseJournal(text.replaceAll('\n', '\r\n'))).toEqual(parseJournal(text));
    });
    await fc.assert(property, { numRuns: 20 });
  });

  it.each<[string, number, (text: string) => string, { code: string; message: RegExp }]>([
    [
      'a line that is not JSON',
      4,
      (text) => text.slice(0, 20),
      { code: 'INVALID_INPUT', message: /^Line 4 of j\.jsonl/ },
    ],
    ['no header', 1, () => '{"type":"turn.started"}', { code: 'INVALID_INPUT', message: /^Line 1 .* not the header/ }],
    [
      'a newer file',
      1,
      (text) => text.replace('"version":1', '"version":2'),
      { code: 'SCHEMA', message: /^Line 1 .*update/ },
    ],
    ['a newer journal', 2, (text) => text.replace('"schema":3', '"schema":9'), { code: 'SCHEMA', message: /^Line 2 / }],
    [
      'another task’s header',
      1,
      (text) => text.replace('"t"', '"u"'),
      { code: 'INVALID_INPUT', message: /"u".*another journal/ },
    ],
    [
      'an unknown type',
      3,
      (text) => text.replace('llm.start', 'llm.begin'),
      { code: 'POISON', message: /^Line 3 .*"llm\.begin"/ },
    ],
    [
      'a member that is missing',
      6,
      (text) => text.replace('"success":true,', ''),
      { code: 'POISON', message: /^Line 6 .*success, true or false/ },
    ],
    [
      'a message without a role',
      2,
      (text) => text.replace('"role":"user"', '"role":"boss"'),
      { code: 'POISON', message: /^Line 2 .*role/ },
    ],
    ['a call of no form', 4, (text) => text.replaceAll('"name":"count",', ''), { code: 'POISON', message: /^Line 4 / }],
    ['a gap', 5, (text) => text.replace('"seq":4', '"seq":5'), { code: 'POISON', message: /^Line 5 .*before it is 3/ }],
    [
      'a result that no call asked for',
      6,
      (text) => text.replace('1:0', '1:1'),
      { code: 'POISON', message: /^Line 6 .*1:1/ },
    ],
    [
      'an epoch that goes back',
      6,
      (text) => text.replace(/"epoch":\d+/, '"epoch":0'),
      { code: 'POISON', message: /^Line 6 .*epoch/ },
    ],
    [
      'usage of an extension that is no usage',
      6,
      (text) => text.replace(/^.*"seq"/, '{"type":"x.a","effects":{"usage":{"promptTokens":"1"}},"seq"'),
      { code: 'POISON', message: /^Line 6 .*x\.a: usage needs promptTokens, a number/ },
    ],
    [
      'tools of an extension that are no list',
      6,
      (text) => text.replace(/^.*"seq"/, '{"type":"x.a","effects":{"tools":{"add":"count"}},"seq"'),
      { code: 'POISON', message: /^Line 6 .*x\.a: tools needs add, a list/ },
    ],
    [
      'a result that fails the turn without a reason',
      6,
      (text) => text.replace('"success":true', '"success":true,"fails":{"code":"GUARDRAIL","message":"No."}'),
      { code: 'POISON', message: /^Line 6 .*tool\.result: fails needs reason, a string/ },
    ],
    [
      'a time that no date has, which lists of all tasks would fail with',
      3,
      (text) => text.replace(/"at":-?\d+/, '"at":1e300'),
      { code: 'POISON', message: /^Line 3 .*llm\.start needs at, a time/ },
    ],
    [
      'a trace that no exporter can write',
      2,
      (text) => text.replace('"seq":1,', '"trace":{"traceId":"x","spanId":"y"},"seq":1,'),
      { code: 'POISON', message: /^Line 2 .*turn\.started: trace needs traceId, a trace id, .* not "x"/ },
    ],
    [
      'messages of a conversation of the store that it is read into',
      6,
      (text) =>
        text.replace(
          /^.*"seq"/,
          '{"type":"x.a","effects":{"givenFrom":{"contextId":"bob:notes","last":"t:1","parts":[[0,2]]}},"seq"',
        ),
      { code: 'POISON', message: /^Line 6 .*x\.a: effects needs givenFrom, to be absent/ },
    ],
    ['a record that is no object', 3, () => '7', { code: 'POISON', message: /^Line 3 .*not 7/ }],
  ])('refuses %s, and names the line', (_, line, change, expected) => {
    const { code, message } = expected;
    expect(() => parseJournal(fileWith(line, change), 'j.jsonl')).toThrow(
      expect.objectContaining({ code, message: expect.stringMatching(message) }),
    );
  });

  it('refuses a file that was cut between two lines, and an empty one', () => {
    const cut = formatJournal(someRecords()).split('\n').slice(0, 4).join('\n');
    expect(() => parseJournal(cut, 'j.jsonl')).toThrow(
      expect.objectContaining({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('3 records, its header says 5'),
      }),
    );
    expect(() => parseJournal('')).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
    expect(() => formatJournal([])).toThrow(expect.objectContaining({ code: 'POISON' }));
  });
});
