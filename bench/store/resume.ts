import { AgentLoop } from 'millrace';
import { RedisStateStore } from 'millrace/redis';
import { NEVER } from 'rxjs';
import { fakeModel } from '../fake-model.ts';
import { medianOf } from '../measure.ts';
import type { Figure } from './figure.ts';
import { provider, toolProviders, work } from './stored-turn.ts';

const iterations = 1_000;
const rounds = 5;

/** From `AgentLoop.resume` to the model's next call, in a store that has not seen the task, all events of the past shown to a subscriber. */
export async function measureResume(port: number): Promise<readonly Figure[]> {
  const redis = `redis://127.0.0.1:${port}`;
  const shutdown = new AbortController();
  const taskId = 'long-turn';
  const store = new RedisStateStore({ redis });
  const model = fakeModel({ ...work, iterations: Number.POSITIVE_INFINITY });
  let answers = 0;
  const llmProvider = provider((messages) => {
    if (++answers > iterations) shutdown.abort();
    return model(messages);
  });
  const config = { agentId: 'bench', maxIterations: 1_000_000, toolProviders };
  const loop = new AgentLoop({ ...config, llmProvider, taskStateStore: store, shutdown: shutdown.signal });
  const turn = loop.startTurn([{ role: 'user', content: 'Hello' }], { taskId });
  turn.subscribe({ error: () => {} });
  await turn.settled.catch(() => {});
  await store.close();
  const samples: number[] = [];
  for (let round = 0; round < rounds; round++) samples.push(await resumed(redis, taskId, config));
  const ms = medianOf(samples);
  return [
    {
      figure: 'resuming a turn of 1,000 iterations',
      measured: `${(ms / 1_000).toFixed(2)} s`,
      target: '≤ 0.5 s',
      met: ms <= 500,
    },
  ];
}

async function resumed(redis: string, taskId: string, config: { readonly agentId: string }): Promise<number> {
  const store = new RedisStateStore({ redis });
  const shutdown = new AbortController();
  // The connection is there in a process that resumes.
  await store.load('no-such-task');
  const startedAt = performance.now();
  const called = new Promise<number>((resolve) => {
    const llmProvider = {
      call: () => Promise.reject(new Error('The bench streams.')),
      stream() {
        resolve(performance.now() - startedAt);
        return NEVER;
      },
    };
    const turn = AgentLoop.resume(taskId, {
      ...config,
      toolProviders,
      maxIterations: 1_000_000,
      maxResumes: 1_000,
      llmProvider,
      taskStateStore: store,
      shutdown: shutdown.signal,
    });
    turn.subscribe({ error: () => {} });
    void turn.settled.catch(() => {}).then(() => store.close());
  });
  const ms = await called;
  shutdown.abort();
  return ms;
}
