import { type Agent, agent } from '../../src/agent/agent.ts';
import type { AgentSettings, GivenTools } from '../../src/agent/agent-options.ts';
import { InMemoryMessageStore } from '../../src/stores/messages/in-memory-message-store.ts';
import type { ScriptedLLMStep } from '../../src/testing/llm-step.ts';
import { turnBench } from '../core/turn-bench.ts';

/** Agents with scripted models on a bench of turns, and a store of messages that is made anew by `fresh`. */
export function agentBench() {
  const bench = turnBench();
  const messages = () => new InMemoryMessageStore({ clock: bench.clock });
  return {
    bench,
    messages,
    /** An agent `ada` in the context `c`, journaled in the bench's store. */
    agent: (steps: readonly ScriptedLLMStep[], options: Partial<AgentSettings> & GivenTools = {}): Agent =>
      agent({
        id: 'ada',
        contextId: 'c',
        provider: bench.model(steps),
        taskStateStore: bench.store,
        clock: bench.clock,
        ...options,
      }),
  };
}

export const user = (content: string) => ({ role: 'user' as const, content });
export const says = (content: string) => ({ role: 'assistant' as const, content });
