import { describe, expect, it } from '@jest/globals';
import type { AgentEvent } from 'millrace';
import {
  createStyle,
  foldProgress,
  idle,
  type Progress,
  plainStart,
  progressLines,
  takeFinished,
  toolRowLine,
  toolRowLines,
} from 'millrace/internals';
import {
  asked,
  below,
  finalStatus,
  llmCall,
  resumed,
  textEvent,
  toolCallDelta,
  toolComplete,
  toolProgress,
  toolStart,
} from './events.ts';

const style = createStyle({ color: false, unicode: true });
const at = (now: number, more: { readonly columns?: number; readonly rows?: number } = {}) => ({
  style,
  columns: 60,
  rows: 24,
  now,
  ...more,
});

function fold(events: readonly AgentEvent[], now = 0): Progress {
  return events.reduce((progress, event) => foldProgress(progress, event, now), idle);
}

describe('the lines of a running turn', () => {
  it('say that the turn waits for the model, and for what', () => {
    expect(progressLines(fold([llmCall()]), at(1240))).toEqual(['  ⠴ waiting for the model  1.2 s']);
    expect(progressLines(fold([llmCall(), toolCallDelta()]), at(160))).toEqual([
      '  ⠹ the model is asking for tools  0.2 s',
    ]);
    expect(progressLines(fold([llmCall(), textEvent('Hel')]), at(0))).toEqual([]);
    expect(progressLines(fold([llmCall(), finalStatus('canceled')]), at(0))).toEqual([]);
  });

  it('say of an MCP call what its server says, or how far it is', () => {
    const lines = (update: object) =>
      progressLines(fold([toolStart('1:0', 'far__index', {}), toolProgress('1:0', 'far__index', update)]), at(400));
    const progress = { type: 'mcp-progress', progress: 2, total: 5 };
    expect(lines(progress)).toEqual([expect.stringContaining('  2 of 5  ')]);
    expect(lines({ ...progress, message: 'reads b.txt' })).toEqual([expect.stringContaining('  reads b.txt  ')]);
  });

  it('hold a line for each call, in the order of the starts, with elapsed time, sign of life and result', () => {
    const progress = fold([
      toolStart('1:0', 'search_files', { query: 'needle' }),
      toolStart('1:1', 'calculate', { expression: '12 * 7' }),
      toolStart('1:2', 'read_file', { path: '../x' }),
      toolProgress('1:0', 'search_files', '120 files'),
      toolComplete('1:1', 'calculate', { arguments: { expression: '12 * 7' }, content: '84' }),
      toolComplete('1:2', 'read_file', {
        arguments: { path: '../x' },
        success: false,
        error: { code: 'TOOL_FAILED', message: 'outside the folder' },
      }),
    ]);
    expect(progressLines(progress, at(400))).toEqual([
      '  ⠴ search_files  needle → 120 files  0.4 s',
      '  ✓ calculate     12 * 7 → 84  3 ms',
      '  ✗ read_file     ../x → outside the folder  3 ms',
    ]);
  });

  it('hold what sub-agents do below their calls: tools, and what they say or wait for', () => {
    const start = [toolStart('1:0', 'bo', { message: 'Go on.' }), below('bo', llmCall())];
    expect(progressLines(fold(start), at(1_000))).toEqual([
      '  ⠹ bo            Go on.  1.0 s',
      '    · bo: waiting for the model  1.0 s',
    ]);
    const deeper = [
      ...start,
      below('bo', textEvent('First line.\nLet me ', { append: false })),
      below('bo', textEvent('ask.')),
      below('bo', toolStart('1:0', 'cy', { message: 'How deep?' })),
      below('bo/cy', toolStart('1:0', 'measure', { at: 'bank' })),
      below('bo/cy', toolComplete('1:0', 'measure', { arguments: { at: 'bank' }, content: '3 m' })),
      below('bo/cy', llmCall(2)),
      below('bo/cy', textEvent('It is very deep, as far as I can see from the bank here.', { append: false })),
    ];
    expect(progressLines(fold(deeper), at(0))).toEqual([
      '  ⠋ bo            Go on.  0.0 s',
      '    ⠋ cy            How deep?  0.0 s',
      '      ✓ measure       bank → 3 m  3 ms',
      '      · cy: …deep, as far as I can see from the bank here.',
      '    · bo: Let me ask.',
    ]);
    const { finished } = takeFinished(fold([...deeper, toolComplete('1:0', 'bo', { content: 'So.' })]));
    expect(finished.flatMap((row) => toolRowLines(row, at(0)))).toEqual([
      '  ✓ bo            So.  3 ms',
      '    ✗ cy            How deep? → cut off',
      '      ✓ measure       bank → 3 m  3 ms',
    ]);
  });

  it('keep the last calls of a sub-agent, however many it makes', () => {
    const calls = Array.from({ length: 1_000 }, (_, index) => [
      below('bo', toolStart(`${index}:0`, `search_${index}`, {})),
      below('bo', toolComplete(`${index}:0`, `search_${index}`)),
    ]);
    const progress = fold([toolStart('1:0', 'bo', {}), ...calls.flat()]);
    expect(JSON.stringify(progress).length).toBeLessThan(5_000);
    const lines = progressLines(progress, at(0));
    expect(lines.slice(0, 2)).toEqual(['  ⠋ bo              0.0 s', '    · 996 more before']);
    expect(lines.at(-1)).toContain('search_999');
  });

  it('show a refused call, which has no start', () => {
    const refused = toolComplete('1:0', 'serch', {
      success: false,
      error: { code: 'TOOL_NOT_FOUND', message: 'unknown' },
    });
    expect(progressLines(fold([refused]), at(0))).toEqual(['  ✗ serch         unknown  3 ms']);
  });

  it('show what was cut off, and that it runs again', () => {
    const progress = fold([
      toolStart('1:0', 'transfer', { to: 'ann' }),
      resumed(),
      toolStart('1:0', 'transfer', { to: 'ann' }, 2),
      toolComplete('1:0', 'transfer', { arguments: { to: 'ann' }, content: 'done' }),
    ]);
    expect(progressLines(progress, at(0))).toEqual([
      '  ✗ transfer      ann → cut off',
      '  ✓ transfer      ann → done  3 ms, attempt 2',
    ]);
  });

  it('leave out a call that asks, until it runs again', () => {
    const waiting = fold([toolStart('1:0', 'book', { to: 'Oslo' }), toolStart('1:1', 'other', {}), asked('1:0')]);
    expect(waiting.tools.map(({ toolName }) => toolName)).toEqual(['other']);
    const again = foldProgress(waiting, toolStart('1:0', 'book', { to: 'Oslo' }, 2), 0);
    expect(again.tools.map(({ toolName, attempt }) => [toolName, attempt])).toEqual([
      ['other', 1],
      ['book', 2],
    ]);
  });

  it('never take more columns than the terminal has, and more rows neither', () => {
    const long = 'x'.repeat(200);
    const events = Array.from({ length: 30 }, (_, index) =>
      toolStart(`1:${index}`, `a_very_long_tool_name_${long}`, { long }),
    );
    const progress = fold([...events, toolComplete('1:3', 'tool', { arguments: { long }, content: long })]);
    const lines = progressLines(progress, at(0, { columns: 60, rows: 10 }));
    expect(lines).toHaveLength(8);
    expect(lines.at(-1)).toBe('    and 23 more');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(59);
  });

  it('let finished calls go only from the top, so that lines keep their order', () => {
    const started = ['1:0', '1:1', '1:2'].map((callId) => toolStart(callId, 'tool', {}));
    const second = takeFinished(fold([...started, toolComplete('1:1', 'tool')]));
    expect(second.finished).toEqual([]);
    const first = takeFinished(foldProgress(second.progress, toolComplete('1:0', 'tool'), 0));
    expect(first.finished.map((row) => row.callId)).toEqual(['1:0', '1:1']);
    expect(first.progress.tools.map((row) => row.callId)).toEqual(['1:2']);
  });
});

it('a call that begins is one plain line where nothing is redrawn', () => {
  const [row] = fold([toolStart('1:0', 'calculate', { expression: '12 * 7' })]).tools;
  expect(row && plainStart(row, style)).toBe('  · calculate 12 * 7');
  expect(row && toolRowLine(row, at(2000))).toBe('  ⠴ calculate     12 * 7  2.0 s');
});
