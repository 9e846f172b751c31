import { type AgentLoopConfig, applyRecord, type LoopState, type Message } from 'millrace';
import { collectTools, Inbox, Run, resolveConfig, ToolSet, TurnNode, turnTracing } from 'millrace/internals';
import type { TurnDeps } from 'millrace/operators';
import { journalSchema } from 'millrace/stores';
import { scriptedLLM } from 'millrace/testing';

const question: readonly Message[] = [{ role: 'user', content: 'How many apples?' }];

/** The state of a turn of which only `turn.started` is written. */
export function startedState(messages: readonly Message[] = question): LoopState {
  return applyRecord(undefined, {
    type: 'turn.started',
    schema: journalSchema,
    taskId: 'task',
    contextId: 'context',
    agentId: 'agent',
    messages,
    settings: {},
    seq: 1,
    epoch: 0,
    at: 0,
  });
}

/** What the operators of a turn are given, made as the engine makes it; the tool providers have to answer at once. */
export function turnDeps(options: Partial<AgentLoopConfig> = {}): TurnDeps {
  const config = resolveConfig({ agentId: 'agent', llmProvider: scriptedLLM([]), ...options });
  const state = startedState();
  const { turn } = state;
  const tracing = turnTracing(config, turn);
  const tools = toolsOf(config.toolProviders);
  const segment = { config, turn, tracing, tools, authContext: undefined, context: undefined };
  return new Run(segment, new TurnNode(state, { now: () => config.clock.now(), epoch: 1 }), new Inbox());
}

function toolsOf(providers: NonNullable<AgentLoopConfig['toolProviders']>): ToolSet {
  const { turn } = startedState();
  const tools = collectTools(providers, { ...turn, authContext: undefined });
  if (tools instanceof Promise) throw new Error('The tool providers of an operator test answer at once.');
  return new ToolSet(tools);
}
