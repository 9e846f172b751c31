import { describe, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore, team } from 'millrace';
import { gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';

/** Each is what another process would make from the same program. */
function made(taskStateStore: InMemoryStateStore, steps: readonly ScriptedLLMStep[], contextId?: string) {
  const shutdown = new AbortController();
  const options = { provider: scriptedLLM(steps), taskStateStore, retry: null, shutdown: shutdown.signal };
  const ada = agent({ name: 'ada', ...options, ...(contextId !== undefined && { contextId }) });
  return Object.assign(ada, { drain: () => shutdown.abort() });
}

async function abandoned(store: InMemoryStateStore): Promise<string> {
  const held = gate();
  const first = made(store, [() => ({ text: ['Half ', held.pass()] })]);
  const turn = first.startTurn('go', { taskId: 't', detached: true });
  await held.reached;
  first.drain();
  await turn.settled.catch(() => {});
  return turn.contextId;
}

describe('R-41 an agent without a contextId', () => {
  it('R-41 resumes its task when the same program starts again', async () => {
    const store = new InMemoryStateStore();
    const contextId = await abandoned(store);
    const turn = made(store, [{ text: 'done' }]).startTurn('go', { taskId: 't' });
    expect(await turn.result()).toMatchObject({ text: 'done' });
    expect(turn.contextId).toBe(contextId);
  });

  it('R-41 submits, lists, resumes and retries tasks of an earlier process', async () => {
    const store = new InMemoryStateStore();
    const { contextId } = await made(store, []).submit('go', { taskId: 's' });
    expect(await made(store, []).submit('go', { taskId: 's' })).toEqual({ taskId: 's', contextId, created: false });
    await expect(
      made(store, [{ error: new Error('boom') }])
        .startTurn('go', { taskId: 'f' })
        .result(),
    ).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
    const tasks = await made(store, []).tasks();
    expect(tasks.map(({ taskId }) => taskId).sort()).toEqual(['f', 's']);
    expect(
      await made(store, [{ text: 'done' }])
        .retry('f')
        .result(),
    ).toMatchObject({ text: 'done' });
    expect(
      await made(store, [{ text: 'done' }])
        .resume('s')
        .result(),
    ).toMatchObject({ text: 'done' });
  });

  it('R-41 is the same for a changed agent and for a team', async () => {
    const store = new InMemoryStateStore();
    await abandoned(store);
    const changed = made(store, []).with({ provider: scriptedLLM([{ text: 'done' }]) });
    expect(await changed.startTurn('go', { taskId: 't' }).result()).toMatchObject({ text: 'done' });
    const crew = () => team({ id: 'crew', agents: [made(store, [{ text: 'ours' }])], taskStateStore: store });
    const { contextId } = await crew().asAgent().submit('go', { taskId: 'm' });
    expect(await crew().asAgent().submit('go', { taskId: 'm' })).toEqual({ taskId: 'm', contextId, created: false });
    expect(await crew().startTurn('go', { taskId: 'm' }).result()).toMatchObject({ text: 'ours' });
  });

  it('R-41 turns of one agent share the context that was made up for it', async () => {
    const ada = made(new InMemoryStateStore(), [{ text: 'One.' }, { text: 'Two.' }]);
    const [first, second] = [ada.startTurn('1'), ada.startTurn('2')];
    const [one, two] = await Promise.allSettled([first.result(), second.result()]);
    expect(one).toMatchObject({ value: { text: 'One.', contextId: ada.contextId } });
    expect(two).toMatchObject({ reason: { code: 'AGENT_BUSY' } });
    expect(ada.with({ description: 'changed' }).contextId).toBe(ada.contextId);
  });

  it.each([
    ['of the agent', (store: InMemoryStateStore) => made(store, [], 'c2').startTurn('go', { taskId: 't' })],
    ['of the turn', (store: InMemoryStateStore) => made(store, []).startTurn('go', { taskId: 't', contextId: 'c2' })],
  ])('R-41 a contextId %s is compared: an id of another conversation is a conflict', async (_, start) => {
    const store = new InMemoryStateStore();
    await abandoned(store);
    await expect(start(store).result()).rejects.toMatchObject({ code: 'CONFLICT' });
  });
});
