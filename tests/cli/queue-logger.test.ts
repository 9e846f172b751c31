import { expect, it } from '@jest/globals';
import { queueLogger } from 'millrace/internals';
import { fakeScreen } from './screen.ts';

/** What is said of a queued turn while the turn before it is so. */
function said(status: string, message = 'turn queued'): string {
  const screen = fakeScreen({ env: {}, outTTY: false, errTTY: false });
  const store = { kind: 'memory', place: 'memory' } as const;
  const logger = queueLogger(screen.terminal, { store, flags: { tools: './tools.mjs' } });
  logger[status === 'dead' ? 'warn' : 'info'](message, { taskId: 't2', contextId: 'c', behind: 't1', status });
  return screen.stderr();
}

it('H-33 a queued turn of the command line says that the one before was suspended or abandoned, and what to do', () => {
  const how = /; continue it with "millrace resume t1 --tools \.\/tools\.mjs", or end it with "millrace cancel t1/;
  expect(said('suspended')).toMatch(/^millrace: turn t1 of this conversation waits for an answer or was paused; /);
  expect(said('dead')).toMatch(/^millrace: turn t1 of this conversation was cut off; /);
  for (const status of ['suspended', 'dead']) expect(said(status)).toMatch(how);
});

it('says nothing of a turn that runs, and of nothing else', () => {
  expect([said('running'), said('dead', 'extension failed')]).toEqual(['', '']);
});
