import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type FinishedSpan, renderWaterfall, spanOutline, spanTree } from 'millrace/otel';

interface SpanSketch extends Partial<Omit<FinishedSpan, 'startMs' | 'endMs'>> {
  readonly parent?: string;
  /** Milliseconds from the start of the turn. */
  readonly at: readonly [number, number];
}

const origin = 1_760_000_000_000;

/** Spans are found by name: the name is the id. */
function sketch(name: string, { parent, at, ...rest }: SpanSketch): FinishedSpan {
  return {
    name,
    traceId: 'trace',
    spanId: name,
    ...(parent !== undefined && { parentSpanId: parent }),
    startMs: origin + at[0],
    endMs: origin + at[1],
    attributes: {},
    status: { code: 'unset' },
    ...rest,
  };
}

function llm(input: number, output: number): FinishedSpan['attributes'] {
  return {
    'openinference.span.kind': 'LLM',
    'gen_ai.usage.input_tokens': input,
    'gen_ai.usage.output_tokens': output,
  };
}

const tool = { 'openinference.span.kind': 'TOOL' };

/** In the order in which they end, as a span processor sees them. */
const turn: readonly FinishedSpan[] = [
  sketch('llm-1', { name: 'llm.call', parent: 'it-1', at: [2, 812], attributes: llm(1_204, 56) }),
  sketch('calculate', { name: 'tool[calculate]', parent: 'batch', at: [816, 817.3], attributes: tool }),
  sketch('weather', { name: 'tool[weather]', parent: 'batch', at: [815, 1_300], attributes: tool }),
  sketch('search', {
    name: 'tool[search_the_web]',
    parent: 'batch',
    at: [816, 2_008],
    attributes: { ...tool, 'error.type': 'TOOL_TIMEOUT' },
    status: { code: 'error', message: 'too slow' },
  }),
  sketch('batch', { name: 'tools.execute', parent: 'it-1', at: [815, 2_010] }),
  sketch('it-1', { name: 'iteration[1]', parent: 'run', at: [1, 2_015] }),
  sketch('llm-2', {
    name: 'llm.call',
    parent: 'it-2',
    at: [2_017, 3_118],
    attributes: { 'openinference.span.kind': 'LLM', 'millrace.outcome': 'canceled' },
  }),
  sketch('it-2', { name: 'iteration[2]', parent: 'run', at: [2_016, 3_119] }),
  sketch('run', { name: 'agent.execute', parent: 'the-caller', at: [0, 3_120] }),
];

function drawn(spans: readonly FinishedSpan[], width: number): readonly string[] {
  const text = renderWaterfall(spans, { width, color: false });
  expect(text.endsWith('\n')).toBe(true);
  return text.slice(0, -1).split('\n');
}

describe('a turn', () => {
  it('in 80 columns', () => {
    expect(drawn(turn, 80)).toEqual([
      '                            0       1.56 s        3.12 s',
      'agent.execute               ████████████████████████████  3.12 s',
      '├ iteration[1]              ██████████████████▏           2.01 s',
      '│ ├ llm.call                ███████▎                      810 ms  1,204→56 tok',
      '│ └ tools.execute                  ███████████            1.20 s',
      '│   ├ tool[weather]                ████▋                  485 ms',
      '│   ├ tool[calculate]              ▏                      1.3 ms',
      '│   └ tool[search_the_web]         ███████████            1.19 s  ✗ TOOL_TIMEOUT',
      '└ iteration[2]                                ██████████  1.10 s',
      '  └ llm.call                                  ██████████  1.10 s  ⊘ canceled',
    ]);
  });

  it('marks tokens that are an estimate', () => {
    const attributes = { 'millrace.usage.estimated_input_tokens': 1_204, 'millrace.usage.estimated_output_tokens': 56 };
    const [, line] = drawn([sketch('llm-1', { name: 'llm.call', at: [0, 10], attributes })], 80);
    expect(line).toMatch(/ ~1,204→56 tok$/);
  });

  it('in 120 columns has longer bars, and no line is longer than that', () => {
    const lines = drawn(turn, 120);
    expect(lines[0]).toBe(`${' '.repeat(28)}0${'1.56 s'.padStart(33)}${'3.12 s'.padStart(34)}`);
    expect(lines[1]).toBe(`agent.execute               ${'█'.repeat(68)}  3.12 s`);
    expect(lines[7]?.length).toBe(120);
  });

  it('in 60 columns has bars and shorter names', () => {
    expect(drawn(turn, 60)[7]).toBe('│   └ tool[search_th…     █████▍      1.19 s  ✗ TOOL_TIMEOUT');
  });

  it('in 40 columns has no bars', () => {
    expect(drawn(turn, 40)).toEqual([
      'agent.execute       3.12 s',
      '├ iteration[1]      2.01 s',
      '│ ├ llm.call        810 ms  1,204→56 tok',
      '│ └ tools.execute   1.20 s',
      '│   ├ tool[weathe…  485 ms',
      '│   ├ tool[calcul…  1.3 ms',
      '│   └ tool[search…  1.19 s  ✗ TOOL_TIME…',
      '└ iteration[2]      1.10 s',
      '  └ llm.call        1.10 s  ⊘ canceled',
    ]);
  });

  it('in 20 columns and fewer has names and durations', () => {
    expect(drawn(turn, 20).slice(0, 3)).toEqual([
      'agent.execu…  3.12 s',
      '├ iteration…  2.01 s',
      '│ ├ llm.call  810 ms',
    ]);
    expect(drawn(turn, 1)).toEqual(drawn(turn, 20));
  });

  it('in ASCII', () => {
    expect(renderWaterfall(turn, { width: 60, color: false, unicode: false })).toBe(
      [
        '                       0      3.12 s',
        'agent.execute          #############  3.12 s',
        '|-iteration[1]         ########       2.01 s',
        '| |-llm.call           ###            810 ms  1,204->56 tok',
        '| `-tools.execute         #####       1.20 s',
        '|   |-tool[weather]       ##          485 ms',
        '|   |-tool[calculate]     #           1.3 ms',
        '|   `-tool[search_th~     #####       1.19 s  x TOOL_TIMEOUT',
        '`-iteration[2]                 #####  1.10 s',
        '  `-llm.call                   #####  1.10 s  - canceled',
        '',
      ].join('\n'),
    );
  });

  it('in colour: model calls cyan, tools yellow, errors red, the axis and what was cancelled dim', () => {
    const lines = renderWaterfall(turn, { width: 80, color: true }).split('\n');
    expect(lines[0]).toContain('\u001b[2m0       1.56 s        3.12 s\u001b[0m');
    expect(lines[1]).not.toContain('\u001b');
    expect(lines[3]).toContain('\u001b[36m███████▎\u001b[0m');
    expect(lines[5]).toContain('\u001b[33m████▋\u001b[0m');
    expect(lines[7]).toMatch(/31m█+.\[0m.*31m✗ TOOL_TIMEOUT.\[0m$/);
    expect(lines[9]).toMatch(/2m█+.\[0m.*2m⊘ canceled.\[0m$/);
    const plain = renderWaterfall(turn, { width: 80, color: false });
    expect(stripVTControlCharacters(lines.join('\n'))).toBe(plain);
  });
});

describe('any spans', () => {
  it('none give an empty text', () => {
    expect(renderWaterfall([], { width: 80, color: true })).toBe('');
  });

  it('one that took no time is drawn', () => {
    expect(drawn([sketch('instant', { at: [5, 5] })], 30)).toEqual([
      '         0          0 ms',
      'instant  ▏                0 ms',
    ]);
  });

  it.each([
    [0.0424, '0.042 ms'],
    [12.34, '12 ms'],
    [99.96, '100 ms'],
    [412.4, '412 ms'],
    [999.4, '999 ms'],
    [999.6, '1.00 s'],
    [59_990, '59.99 s'],
    [59_996, '1m 00s'],
    [3_599_400, '59m 59s'],
    [3_599_600, '1h 00m'],
    [7_500_000, '2h 05m'],
  ])('%d ms are written as %s', (ms, text) => {
    const lines = drawn([{ ...sketch('span', { at: [0, 0] }), startMs: 0, endMs: ms }], 20);
    expect(lines).toEqual([`span  ${text}`]);
  });

  it('an error without a type shows its message, one without that the word', () => {
    const spans = [
      sketch('told', { at: [0, 1], status: { code: 'error', message: 'no\u001b[2Jroute' } }),
      sketch('untold', { at: [0, 1], status: { code: 'error' } }),
    ];
    const lines = drawn(spans, 80);
    expect(lines[1]).toMatch(/ ✗ no\?\[2Jroute$/);
    expect(lines[2]).toMatch(/ ✗ error$/);
  });

  it('names that would move the cursor are defused', () => {
    const [, line] = drawn([sketch('tool[\u001b]0;owned\u0007\u202e\r\n]', { at: [0, 1] })], 80);
    expect(line).toMatch(/^tool\[\?\]0;owned\?\?\?\?\] /);
  });

  const forest = fc.array(fc.record({ parent: fc.nat(), start: fc.nat(10_000), took: fc.nat(10_000) }), {
    maxLength: 30,
  });

  function spansOf(sketches: readonly { parent: number; start: number; took: number }[]): readonly FinishedSpan[] {
    return sketches.map(({ parent, start, took }, index) =>
      sketch(`s${index}`, { at: [start, start + took], ...(parent < index && { parent: `s${parent}` }) }),
    );
  }

  it('each has a line, and none is longer than the terminal is wide', () => {
    fc.assert(
      fc.property(forest, fc.integer({ min: 1, max: 200 }), fc.boolean(), (sketches, width, unicode) => {
        const lines = renderWaterfall(spansOf(sketches), { width, color: false, unicode }).split('\n').slice(0, -1);
        expect(Math.max(0, ...lines.map((line) => line.length))).toBeLessThanOrEqual(Math.max(20, width));
        expect(lines.filter((line) => !/^ *0 /.test(line))).toHaveLength(sketches.length);
      }),
    );
  });

  it('stand in the order of their tree', () => {
    fc.assert(
      fc.property(forest, (sketches) => {
        const spans = spansOf(sketches);
        const rows = renderWaterfall(spans, { width: 1_000, color: false }).split('\n').slice(1, -1);
        const names = rows.map((row) => /s\d+/.exec(row)?.[0]);
        expect(names).toEqual(
          spanOutline(spans)
            .split('\n')
            .filter(Boolean)
            .map((name) => name.trim()),
        );
      }),
    );
  });
});

describe('a tree of spans', () => {
  it('has the children of a span by their start, and orphans as roots', () => {
    const spans = [
      sketch('late', { parent: 'root', at: [2, 3] }),
      sketch('orphan', { parent: 'elsewhere', at: [5, 6] }),
      sketch('early', { parent: 'root', at: [1, 4] }),
      sketch('root', { at: [0, 4] }),
    ];
    expect(spanOutline(spans)).toBe('root\n  early\n  late\norphan');
  });

  it('keeps traces apart', () => {
    const other = { ...sketch('child', { parent: 'root', at: [0, 1] }), traceId: 'another' };
    expect(spanTree([sketch('root', { at: [0, 1] }), other]).map((node) => node.children.length)).toEqual([0, 0]);
  });
});
