import { expect, it } from '@jest/globals';
import { serveLogger } from 'millrace/internals';
import { fakeScreen } from './screen.ts';

it('a server says what failed, and leaves stacks to its structured log', async () => {
  const screen = fakeScreen({ errTTY: false });
  const log = await serveLogger(screen.terminal, false);
  const error = { type: 'RangeError', message: 'it is too long', stack: 'RangeError: it is too long\n    at x.ts:1:1' };
  log.warn('extension failed', { taskId: 't', hook: 'afterEnd', error });
  log.error('recovery of turns failed', { code: 'UNAVAILABLE', tasks: ['a', 'b'] });
  const [warning, failure] = screen.stderr().trimEnd().split('\n');
  expect(warning).toContain('extension failed (taskId t, hook afterEnd, error RangeError: it is too long)');
  expect(failure).toContain('recovery of turns failed (code UNAVAILABLE, tasks ["a","b"])');
});
