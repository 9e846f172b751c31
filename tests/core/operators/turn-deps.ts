import type { AgentLoopConfig } from '../../../src/core/contracts/config.ts';
import type { Message } from '../../../src/core/contracts/messages.ts';
import { Hooks } from '../../../src/core/hooks/hooks.ts';
import { applyRecord } from '../../../src/core/journal/apply-record.ts';
import { journalSchema } from '../../../src/core/journal/records.ts';
import type { LoopState } from '../../../src/core/journal/state.ts';
import { OpenCall } from '../../../src/core/model-call/open-call.ts';
import { resolveConfig } from '../../../src/core/options/resolve-config.ts';
import { TurnNode } from '../../../src/core/ownership/child-turns.ts';
import { AbortScope } from '../../../src/core/streams/abort-scope.ts';
import { CallNotes } from '../../../src/core/tool-call/tool-results.ts';
import { collectTools, ToolSet } from '../../../src/core/tool-call/tool-set.ts';
import { Inbox } from '../../../src/core/turn/inbox.ts';
import type { TurnDeps } from '../../../src/core/turn/turn-deps.ts';
import { turnTracing } from '../../../src/observability/spans/tracing-options.ts';
import { scriptedLLM } from '../../../src/testing/scripted-llm.ts';

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
  const { turn } = startedState();
  return {
    config,
    turn,
    agentId: turn.agentId,
    systemPrompt: config.systemPrompt,
    maxIterations: config.maxIterations,
    provider: config.llmProvider,
    context: undefined,
    authContext: undefined,
    tracing: turnTracing(config, turn),
    hooks: new Hooks(config.hooks),
    callNotes: new CallNotes(),
    scope: new AbortScope(),
    drain: new AbortScope(),
    inbox: new Inbox(),
    openCall: new OpenCall(),
    node: new TurnNode(startedState(), undefined, () => undefined),
    hold: undefined,
    epoch: 1,
    now: () => config.clock.now(),
    tools: toolsOf(config.toolProviders),
  };
}

function toolsOf(providers: NonNullable<AgentLoopConfig['toolProviders']>): ToolSet {
  const { turn } = startedState();
  const tools = collectTools(providers, { ...turn, authContext: undefined });
  if (tools instanceof Promise) throw new Error('The tool providers of an operator test answer at once.');
  return new ToolSet(tools);
}
