import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { agent, replay, tool } from 'millrace';
import { PostgresMessageStore, PostgresStateStore } from 'millrace/postgres';
import { scriptedLLM } from 'millrace/testing';
import { describePostgres } from '../stores/postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from '../stores/postgres/postgres-process.ts';

/** PostgreSQL has neither of the first two in a text, and statements are made of the others. */
const odd = `\u0000 \ud800 \udfff "'); drop table millrace.task; -- $1 \\ %s \u2028`;
/** As large as a result may be. */
const large = `${odd}${'ä🐘'.repeat((8 * 2 ** 20) / 6 - 100)}`;

describePostgres('strings of clients, models and tools', () => {
  let postgres: PostgresProcess;
  beforeAll(async () => {
    postgres = await startPostgres();
  });
  afterAll(() => postgres.remove());

  it('are kept as they are in journals and conversations, whatever is in them, and up to 8 MiB', async () => {
    const store = new PostgresStateStore({ postgres: postgres.url, migrate: true });
    const messages = new PostgresMessageStore({ postgres: postgres.url, migrate: true });
    const dump = tool({
      name: 'dump',
      description: 'Gives all there is.',
      parameters: { type: 'object' },
      execute: (args) => (args['size'] === 'large' ? large : odd),
    });
    const ask = tool({
      name: 'ask',
      description: 'Asks.',
      parameters: { type: 'object' },
      needsApproval: true,
      execute: () => odd,
    });
    const called = [
      { name: 'dump', arguments: JSON.stringify({ [odd]: odd, size: 'large' }), id: odd },
      { name: 'ask', arguments: JSON.stringify({ [odd]: odd }) },
    ];
    const provider = scriptedLLM([{ text: odd, toolCalls: called }, { text: odd }, { text: odd }]);
    const settings = { provider, tools: [dump, ask], taskStateStore: store, messageStore: messages };
    const contextId = 'c';
    const asked = await agent({ id: 'odd', ...settings, contextId }).run(odd, {
      taskId: 't',
      metadata: { [odd]: odd },
    });
    expect(asked.questions?.[0]?.data).toEqual({ [odd]: odd });
    const answers = { [asked.questions?.[0]?.id ?? '']: { approved: true, reason: odd } };
    const done = await agent({ id: 'odd', ...settings, contextId })
      .resume('t', { answers })
      .result();
    expect([done.status, done.text]).toEqual(['completed', odd]);
    const results = done.messages.flatMap(({ role, content }) => (role === 'tool' ? [content] : []));
    expect(results).toEqual([large, odd]);
    expect(await store.list({ contextId })).toMatchObject([{ taskId: 't', contextId }]);
    const kept = (await messages.load(contextId)).messages.map(({ content }) => content);
    expect(kept).toEqual([odd, odd, large, odd, odd]);
    await expect(replay(await store.read('t')).result()).resolves.toMatchObject({ text: odd, deviations: [] });
    await store.close();
    await messages.close();
  });
});
