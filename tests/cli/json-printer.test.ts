import { describe, expect, it } from '@jest/globals';
import { eventLine, JsonPrinter } from 'millrace/internals';
import { below, finalStatus, textEvent, toolProgress } from './events.ts';
import { fakeScreen } from './screen.ts';

describe('JsonPrinter', () => {
  it('writes one event a line, as it is, and nothing to stderr', async () => {
    const screen = fakeScreen();
    const printer = new JsonPrinter(screen.terminal.stdout);
    const events = [textEvent('two\nlines'), finalStatus('completed')];
    for (const event of events) await printer.print(event);
    printer.close();
    const lines = screen.stdout().split('\n');
    expect(lines.pop()).toBe('');
    expect(lines.map((line) => JSON.parse(line))).toEqual(events);
    expect(screen.stderr()).toBe('');
  });

  it('replaces a progress report that JSON cannot hold by its text', () => {
    expect(JSON.parse(eventLine(toolProgress('1:0', 'tool', 12n)))).toMatchObject({ update: '12' });
    const nested = JSON.parse(eventLine(below('bo', toolProgress('1:0', 'tool', 12n))));
    expect(nested).toMatchObject({ kind: 'internal:sub-agent', event: { update: '12', taskId: 't1:1:0' } });
  });
});
