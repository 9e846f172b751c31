import { describe, expect, it } from '@jest/globals';
import type { AgentEvent } from 'millrace';
import { TextPrinter } from 'millrace/internals';
import {
  asked,
  attemptDiscarded,
  below,
  finalStatus,
  llmCall,
  llmResponse,
  resumed,
  textEvent,
  toolComplete,
  toolStart,
} from './events.ts';
import { type FakeScreen, fakeScreen } from './screen.ts';

const up = (lines: number) => `\r\u001b[${lines}A\u001b[J`;

const twoIterations: readonly AgentEvent[] = [
  llmCall(1),
  textEvent('Let me ', { append: false }),
  textEvent('look.'),
  toolStart('1:0', 'search_files', { query: 'x' }),
  toolStart('1:1', 'calculate', { expression: '1+1' }),
  toolComplete('1:1', 'calculate', { arguments: { expression: '1+1' }, content: '2' }),
  toolComplete('1:0', 'search_files', { arguments: { query: 'x' }, content: 'a.ts' }),
  llmCall(2),
  textEvent('It is 2.', { append: false, iteration: 2 }),
  finalStatus('completed'),
];

async function shown(screen: FakeScreen, events: readonly AgentEvent[]): Promise<FakeScreen> {
  const printer = new TextPrinter(screen.terminal, () => 0);
  for (const event of events) await printer.print(event);
  printer.close();
  return screen;
}

describe('TextPrinter', () => {
  it('into pipes: the text alone on stdout, a line for each start and finish on stderr', async () => {
    const screen = await shown(fakeScreen(), twoIterations);
    expect(screen.stdout()).toBe('Let me look.\n\nIt is 2.\n');
    expect(screen.stderr()).toBe(
      [
        '  · search_files x',
        '  · calculate 1+1',
        '  ✓ calculate     1+1 → 2  3 ms',
        '  ✓ search_files  x → a.ts  3 ms',
        '',
      ].join('\n'),
    );
  });

  it('into pipes: tools and answers of sub-agents with the path to them, below the call', async () => {
    const screen = await shown(fakeScreen(), [
      toolStart('1:0', 'bo', { message: 'Go on.' }),
      below('bo', textEvent('Let me ', { append: false })),
      below('bo', llmResponse(7, 1, 'Let me\nask.'), '4-1.1'),
      below('bo', toolStart('1:0', 'cy', { message: 'How deep?' }), '5-1.1'),
      below('bo/cy', toolStart('1:0', 'measure', { at: 'bank' }), '5-1.1'),
      below('bo/cy', toolComplete('1:0', 'measure', { arguments: { at: 'bank' }, content: '3 m' }), '6-1.1'),
      below('bo', toolComplete('1:0', 'cy', { content: 'Deep.' }), '6-1.1'),
      toolComplete('1:0', 'bo', { content: 'So.' }),
    ]);
    expect(screen.stdout()).toBe('');
    expect(screen.stderr()).toBe(
      [
        '  · bo Go on.',
        '    bo  Let me ask.',
        '    bo  · cy How deep?',
        '      bo/cy  · measure bank',
        '      bo/cy  ✓ measure       bank → 3 m  3 ms',
        '    bo  ✓ cy            Deep.  3 ms',
        '  ✓ bo            So.  3 ms',
        '',
      ].join('\n'),
    );
  });

  it('on one terminal: progress is redrawn in place, text and tools are kept apart', async () => {
    const screen = await shown(fakeScreen({ outTTY: true, errTTY: true }), twoIterations);
    const search = '  ⠋ search_files  x  0.0 s\n';
    expect(screen.all()).toBe(
      [
        '  ⠋ waiting for the model  0.0 s\n',
        `${up(1)}Let me look.\n\n`,
        search,
        `${up(1)}${search}  ⠋ calculate     1+1  0.0 s\n`,
        `${up(2)}${search}  ✓ calculate     1+1 → 2  3 ms\n`,
        `${up(2)}  ✓ search_files  x → a.ts  3 ms\n  ✓ calculate     1+1 → 2  3 ms\n`,
        '  ⠋ waiting for the model  0.0 s\n',
        `${up(1)}\nIt is 2.\n`,
      ].join(''),
    );
  });

  it('text into a file, progress on the terminal: neither disturbs the other', async () => {
    const screen = await shown(fakeScreen({ errTTY: true }), twoIterations);
    expect(screen.stdout()).toBe('Let me look.\n\nIt is 2.\n');
    expect(screen.stderr()).not.toContain('Let me');
  });

  it('a discarded attempt is named, and the new one starts on a line of its own', async () => {
    const screen = await shown(fakeScreen(), [
      textEvent('The ans', { append: false }),
      attemptDiscarded('HTTP 503'),
      textEvent('The answer', { append: false }),
    ]);
    expect(screen.stdout()).toBe('The ans\n\nThe answer\n');
    expect(screen.stderr()).toBe('  the model starts again: HTTP 503; the text above is discarded\n');
  });

  it('what is asked is said once, and only while other calls go on', async () => {
    const screen = await shown(fakeScreen(), [
      toolStart('1:0', 'other', {}),
      asked('1:1'),
      asked('1:1', '1:2'),
      toolComplete('1:0', 'other'),
      asked('1:1', '1:2', '1:3'),
    ]);
    expect(screen.stderr().split('\n')).toEqual([
      '  · other',
      '  ? 1:1  book asks',
      '         Aisle?',
      '  ? 1:2  book asks',
      '         Aisle?',
      '  ✓ other         ok  3 ms',
      '',
    ]);
  });

  it('a line parts what an earlier process did from what this one does', async () => {
    const screen = await shown(fakeScreen({ outTTY: true, errTTY: true }), [toolStart('1:0', 'other', {}), resumed()]);
    expect(screen.all()).toMatch(/ {2}✗ other {9}cut off\n {2}· resumed \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n$/);
  });

  it('calls of a process that was killed can be shown as cut off', () => {
    const screen = fakeScreen();
    const printer = new TextPrinter(screen.terminal, () => 0);
    void printer.print(toolStart('1:0', 'other', { to: 'ann' }));
    printer.cutOff();
    printer.close();
    expect(screen.stderr()).toBe('  · other ann\n  ✗ other         ann → cut off\n');
  });

  it('what a model says steers no terminal, and reaches a pipe unchanged', async () => {
    const events = [textEvent('a\u001b[2Jb', { append: false })];
    expect((await shown(fakeScreen({ outTTY: true }), events)).stdout()).toBe('a[2Jb\n');
    expect((await shown(fakeScreen(), events)).stdout()).toBe('a\u001b[2Jb\n');
  });

  it('on a terminal too narrow to redraw, only finished lines appear', async () => {
    const screen = await shown(fakeScreen({ outTTY: true, errTTY: true, columns: 30 }), twoIterations);
    expect(screen.all()).not.toContain('\u001b[');
    expect(screen.all()).toContain('  ✓ calculate ');
  });

  it('opens sections on a line of their own, and tells that a cancel takes its time', async () => {
    const screen = fakeScreen({ outTTY: true, errTTY: true });
    const printer = new TextPrinter(screen.terminal, () => 0);
    printer.heading('-- one --');
    await printer.print(textEvent('Well', { append: false }));
    printer.heading('-- two --');
    await printer.print(toolStart('1:0', 'wait', {}));
    printer.cancelling();
    await printer.print(toolComplete('1:0', 'wait', { content: 'done' }));
    printer.close();
    expect(screen.all()).toBe(
      [
        '\n-- one --\nWell\n\n-- two --\n',
        '  ⠋ wait            0.0 s\n',
        `${up(1)}  stopping; Ctrl-C again does not wait\n`,
        '  ✓ wait          done  3 ms\n',
      ].join(''),
    );
  });
});
