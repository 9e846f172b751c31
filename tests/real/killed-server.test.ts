import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StreamResponse } from '@a2a-js/sdk';
import { afterAll, expect, it } from '@jest/globals';
import { a2aRequestHandler, turnExtension } from 'millrace/a2a';
import { call, send } from '../a2a/bench.ts';
import { killedAgent, killedLeaseMs } from '../a2a/children/killed-agent.ts';
import { message, shortOf, textIn } from '../a2a/messages.ts';
import { cardAt } from '../a2a/serving.ts';
import { MovableClock } from '../movable-clock.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';

const children = new ChildPrograms('tests/a2a/children');
afterAll(() => children.clear());

it('T-06 a task whose process is killed is taken over by the process that a client follows it at, and each record is shown once', async () => {
  const path = await mkdtemp(join(tmpdir(), 'a2a-killed-'));
  const child = children.start('serve', path, 'm-1');
  await nextMessage(child);
  let calls = 0;
  const clock = new MovableClock();
  const { agent, close } = killedAgent(path, { last: { text: ['Two', '.'] }, onTool: () => calls++, clock });
  const handler = a2aRequestHandler({ agent, card: cardAt('http://x') });
  const { id } = await send(handler, message('Count', { messageId: 'm-1' }), { returnImmediately: true });

  const seen: StreamResponse[] = [];
  let isKilled = false;
  for await (const response of handler.resubscribe({ tenant: '', id }, call())) {
    seen.push(response);
    if (shortOf(response).endsWith(':Half an ')) {
      expect(isKilled).toBe(false);
      isKilled = true;
      await kill(child);
      clock.advance(killedLeaseMs);
    }
  }
  expect(isKilled).toBe(true);
  const order = seen.map(shortOf);
  expect(order[0]).toMatch(/^task:[12]$/);
  const behind = order.slice(order.indexOf('answer-2:Half an ') + 1);
  expect([behind[0], behind.at(-1)]).toEqual(['status:2', 'status:3']);
  const cursors = seen.flatMap((response) => cursorOf(response) ?? []);
  expect(cursors.length).toBeGreaterThan(1);
  expect(new Set(cursors).size).toBe(cursors.length);
  expect(textIn(seen, 'answer-2')).toBe('Two.');
  expect([calls, await readFile(join(path, 'calls'), 'utf8')]).toEqual([0, 'called ']);
  const task = await handler.getTask({ tenant: '', id }, call());
  expect(task.artifacts.map(({ artifactId, parts }) => [artifactId, parts[0]?.content?.value])).toEqual([
    ['answer-1', 'Counting.'],
    ['answer-2', 'Two.'],
  ]);
  await agent.close();
  await close();
  await rm(path, { recursive: true });
});

/** The cursor of an update of a record. */
function cursorOf({ payload }: StreamResponse): unknown {
  const metadata = payload?.$case === 'statusUpdate' ? payload.value.metadata : undefined;
  return Object(metadata?.[turnExtension]).cursor;
}
