import { expect, it } from '@jest/globals';
import { type Agent, agent } from 'millrace';
import { mcpServer } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import type { TaskStateStore } from 'millrace/types';
import { eras } from './eras.ts';

/** The store that the server gives the agent, which has none. */
function watched(theAgent: Agent): { readonly store: TaskStateStore | undefined } {
  const derive = theAgent.with.bind(theAgent);
  const seen: { store: TaskStateStore | undefined } = { store: undefined };
  const value = (changes: { readonly taskStateStore: TaskStateStore }) => {
    seen.store = changes.taskStateStore;
    return derive(changes);
  };
  Object.defineProperty(theAgent, 'with', { value });
  return seen;
}

it('a server whose agent has no store keeps 1,000 ended turns, and conversations that have a name', async () => {
  const [era] = eras.filter(({ name }) => name === 'the SDK of version 2 over stdio, auto');
  const theAgent = agent({
    name: 'the clerk',
    provider: scriptedLLM(Array.from({ length: 1_011 }, () => ({ text: 'Hello.' }))),
  });
  const seen = watched(theAgent);
  const server = mcpServer({ agent: theAgent });
  const client = await era?.connect({ server });
  try {
    await client?.call({ message: 'Hi.', conversation: 'a' });
    for (let call = 0; call < 1_010; call++) await client?.call({ message: 'Hi.' });
    const tasks = await seen.store?.list({ limit: 2_000 });
    expect(tasks).toHaveLength(1_000);
    const contexts = await seen.store?.messages?.contexts();
    const ids = contexts?.contexts.map(({ contextId }) => contextId);
    expect(ids).toEqual([expect.stringMatching(/^mcp\.[\w-]{22}:chat\.a$/)]);
  } finally {
    await client?.close();
    await server.close();
  }
});
