import { agent, type Clock } from 'millrace';
import { LmdbMessageStore, LmdbStateStore } from 'millrace/lmdb';
import { type LLMStep, scriptedLLM } from 'millrace/testing';
import { plainTools } from '../../core/plain-tools.ts';

/** Longer than a test: a process that a busy machine does not let run keeps it. */
export const killedLeaseMs = 600_000;

export interface KilledAgentOptions {
  /** What the model answers behind the tool. */
  readonly last: LLMStep;
  readonly onTool: () => void;
  /** Of the store. Default: the system clock. */
  readonly clock?: Clock;
}

/** An agent whose stores are in a folder, as each of several processes makes it. The model goes by what it is shown, not by a script. */
export function killedAgent(path: string, { last, onTool, clock }: KilledAgentOptions) {
  const first: LLMStep = { text: 'Counting.', toolCalls: [{ name: 'count' }] };
  const step = ({ messages }: { readonly messages: readonly { readonly role: string }[] }) =>
    messages.at(-1)?.role === 'tool' ? last : first;
  const taskStateStore = new LmdbStateStore({ path: `${path}/journal`, pollMs: 5, clock });
  const messageStore = new LmdbMessageStore({ path: `${path}/messages` });
  const count = () => {
    onTool();
    return '2';
  };
  const made = agent({
    id: 'ada',
    provider: scriptedLLM([step, step, step]),
    taskStateStore,
    messageStore,
    toolProviders: [plainTools({ count })],
    leaseMs: killedLeaseMs,
    enableTracing: false,
  });
  const close = () => Promise.all([taskStateStore.close(), messageStore.close()]);
  return { agent: made, close };
}
