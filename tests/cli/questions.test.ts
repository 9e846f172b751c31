import { describe, expect, it } from '@jest/globals';
import type { Question } from 'millrace';
import { answerCommand, createStyle, questionLines, showWaiting, storeSettings } from 'millrace/internals';
import { fakeScreen } from './screen.ts';

const style = createStyle({ color: false, unicode: true });
const place = { taskId: 't', flags: {}, store: storeSettings({}, {}) };
const refund: Question = {
  id: '1:0',
  callId: '1:0',
  kind: 'approval',
  toolName: 'refund',
  data: { order: 7, cents: 1250 },
};
const input: Question = { id: '1:2', callId: '1:2', kind: 'input', toolName: 'book', prompt: 'Window\nor aisle?' };

describe('a question', () => {
  it('is the call, its tool, what it is about, and the prompt', () => {
    const lines = [refund, input].flatMap((question) => questionLines(question, { style, columns: 80 }));
    expect(lines).toEqual([
      '  ? 1:0  refund needs approval: order: 7, cents: 1250',
      '  ? 1:2  book asks',
      '         Window or aisle?',
    ]);
  });

  it('of a sub-agent is shown as the sub-agent asks it', () => {
    const child = { taskId: 't.1', agentId: 'clerk' };
    const outer: Question = {
      id: '1:1',
      callId: '1:1',
      kind: 'input',
      toolName: 'ask_clerk',
      data: { ...child, question: refund },
      child,
    };
    expect(questionLines(outer, { style, columns: 80 })).toEqual([
      `  ? 1:1  ask_clerk ${style.glyphs.arrow} refund needs approval: order: 7, cents: 1250`,
    ]);
  });

  it('never takes more columns than there are, and steers no terminal', () => {
    const long: Question = { ...refund, toolName: 'x\u001b[2J', prompt: 'word '.repeat(50), data: 'y'.repeat(200) };
    const lines = questionLines(long, { style, columns: 40 });
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(40);
    expect(lines.join('')).not.toContain('\u001b');
  });
});

it('the command answers all of them, by call', () => {
  expect(answerCommand([refund, input], place)).toBe(
    `millrace resume t --answer '1:0={"approved":true}' --answer '1:2="…"'`,
  );
});

it('a turn that was paused is only to be resumed', () => {
  const screen = fakeScreen();
  showWaiting([], place, screen.terminal);
  expect([screen.stdout(), screen.stderr()]).toEqual(['', '  resume with:\n  millrace resume t\n']);
});
