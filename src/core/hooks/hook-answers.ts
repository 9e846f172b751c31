import type {
  CallChange,
  EndChange,
  FinishChange,
  IterationChange,
  ResponseChange,
  StepChange,
  ToolCallChange,
  ToolOutcomeChange,
  TurnBeginning,
} from '../contracts/extension.ts';
import type { HookName } from './hooks.ts';

type Members<Change> = Readonly<Record<keyof Change, true>>;

const noted = { data: true, events: true, fail: true } as const;
const used = { usage: true, usageBy: true } as const;
const course = { ...noted, ...used, messages: true, settings: true, finish: true } as const;
const turn = { ...course, tools: true } as const;

const beforeTurn: Members<TurnBeginning> = { ...turn, given: true, earlier: true, waitedMs: true, agent: true };
const shouldPause: Members<{ readonly reason: string }> = { reason: true };
const prepareIteration: Members<IterationChange> = { ...noted, ...used, view: true, finish: true };
const beforeLLMCall: Members<CallChange> = { params: true, provider: true, response: true, fail: true };
const afterLLMCall: Members<ResponseChange> = { ...noted, response: true };
const beforeToolCall: Members<ToolCallChange> = {
  deny: true,
  answer: true,
  arguments: true,
  deadline: true,
  fail: true,
};
const afterToolCall: Members<ToolOutcomeChange> = {
  ...noted,
  ...used,
  result: true,
  messages: true,
  finish: true,
  agent: true,
};
const beforeFinish: Members<FinishChange> = { ...course, agent: true };
const afterIteration: Members<StepChange> = { ...turn, results: true, agent: true };
const afterTurn: Members<EndChange> = { text: true, value: true, fail: true };

const members: Readonly<Partial<Record<HookName, Readonly<Record<string, true>>>>> = {
  ...{ beforeTurn, shouldPause, prepareIteration, beforeLLMCall, afterLLMCall, beforeToolCall },
  ...{ afterToolCall, beforeFinish, afterIteration, afterTurn },
};

/** Throws if an answer has an unknown property for that hook, naming it and the allowed ones. */
export function checkMembers(hook: HookName, answer: object): void {
  const known = members[hook];
  if (!known) return;
  for (const [name, value] of Object.entries(answer)) {
    if (value === undefined || Object.hasOwn(known, name)) continue;
    throw new TypeError(`unknown property "${name}"; allowed: ${Object.keys(known).join(', ')}`);
  }
}
