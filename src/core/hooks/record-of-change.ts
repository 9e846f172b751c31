import {
  type AgentUsage,
  type Content,
  checkContent,
  checkMessages,
  type FailureChange,
  type FinishChange,
  givenJson,
  isObject,
  type Message,
  type MessageView,
  maxJsonDepth,
  maxMessageDepth,
  noUsage,
  type StepChange,
  settingsFlaw,
  shownValue,
  type ToolProvider,
  type TurnBeginning,
  type Usage,
  unfrozen,
} from '../contracts/index.ts';
import type {
  AgentChoice,
  CallHook,
  CommitDraft,
  Effects,
  EmittedEvent,
  ExtensionRecord,
  Finish,
  LoopState,
  RecordedHook,
  TurnOverrides,
  TurnRecord,
} from '../journal/index.ts';
import { failed } from '../model-call/response.ts';
import { type ParentTurn, recordedUsage } from '../ownership/child-turns.ts';
import { collectTools } from '../tool-call/tool-set.ts';
import type { HookDeps } from './hook-context.ts';

/** All changes that hooks can return; `hookTable` says which hook may return which. */
export type AnyChange = StepChange & TurnBeginning & FailureChange & Pick<FinishChange, 'withhold'>;

interface ChangeOrigin {
  readonly deps: HookDeps;
  readonly state: LoopState;
  /** Of the extension. */
  readonly name: string;
  readonly hook: RecordedHook;
  /** The usage of the hook's child turns. */
  readonly used: readonly AgentUsage[];
}

/** The effects whose form is that of the answer or is made from it. Usage is summed with that of child turns. */
type EffectName = Exclude<keyof Effects & keyof AnyChange, 'usage' | 'usageBy'>;

interface EffectRow<Name extends EffectName> {
  /** Whether it must be an object. */
  readonly object?: true;
  /** Whether it must be JSON. Its values have limits of their own. */
  readonly json?: true;
  /** Returns what is recorded and folded (`applyEffects` in `fold.ts`). Throws a message for the extension's author if it is invalid. */
  readonly check: (given: NonNullable<AnyChange[Name]>, origin: ChangeOrigin) => NonNullable<Effects[Name]> | undefined;
}

/** Every effect, in the order in which a record has them. */
const effectTable: { readonly [Name in EffectName]: EffectRow<Name> } = {
  messages: { check: (messages) => (messages.length > 0 ? checkedMessages('messages', messages) : undefined) },
  given: { check: (messages) => checkedMessages('given', messages) },
  earlier: { check: (count) => checkedCount('earlier', count) },
  givenFrom: { object: true, json: true, check: checkedView },
  waitedMs: { check: (count) => checkedCount('waitedMs', count) },
  results: { object: true, json: true, check: checkedResults },
  settings: { object: true, check: checkedSettings },
  tools: { object: true, check: namesOf },
  repeat: { check: checkedTrue('repeat') },
  withhold: { check: checkedTrue('withhold') },
  finish: { object: true, json: true, check: checkedFinish },
  agent: { object: true, check: checkedChoice },
};
const effectNames = Object.keys(effectTable) as readonly EffectName[];

type DraftEffects = { -readonly [Name in EffectName]?: NonNullable<Effects[Name]> };

/**
 * Creates the record of an extension's changes, and of the usage of the hook's child turns; `undefined` if there are none. Throws a message for the
 * extension's author if the changes are invalid.
 */
export function recordOfChange(change: AnyChange, origin: ChangeOrigin): ExtensionRecord | undefined {
  const { usage, usageBy, data } = change;
  const events = checkedEvents(change.events);
  const own: DraftEffects = {};
  for (const name of effectNames) if (change[name] !== undefined) addEffect(own, name, change[name], origin);
  if (usage !== undefined) checkObject('usage', usage);
  const sum = usageBy
    ? { usage: checkedUsage(usage ?? noUsage), usageBy }
    : recordedUsage(usage && checkedUsage(usage), origin.used);
  const effects: Effects = { ...own, ...sum };
  if (effects.withhold && !effects.messages)
    throw new TypeError('withhold needs messages, which ask for another answer; to end the turn, give fail');
  const changes = Object.keys(effects).length > 0;
  if (!changes && data === undefined && events.length === 0) return undefined;
  return {
    type: `x.${origin.name}`,
    ...(changes ? { effects } : {}),
    ...(data === undefined ? {} : { data: jsonOf('data', data) }),
    ...(events.length > 0 ? { events } : {}),
    hook: origin.hook,
  };
}

function addEffect<Name extends EffectName>(
  effects: DraftEffects,
  name: Name,
  given: AnyChange[Name],
  origin: ChangeOrigin,
): void {
  const { object, json, check }: EffectRow<Name> = effectTable[name];
  if (object) checkObject(name, given);
  if (given === undefined || given === null || given === false) return;
  if (json) jsonOf(name, given, maxMessageDepth);
  const effect = check(given, origin);
  if (effect !== undefined) effects[name] = effect;
}

/** A child turn of a hook without a record of its answer; its usage is not recorded yet. */
export interface UnrecordedBranch {
  /** Of the extension. */
  readonly name: string;
  readonly hook: CallHook;
  /** The call that the hook was called for, if any. */
  readonly callId?: string;
  readonly parent: ParentTurn;
}

/** Records the usage of hooks' child turns, each once: skips usage that is already recorded. */
export function recordBranches(draft: CommitDraft, branches: readonly UnrecordedBranch[]): void {
  for (const { name, hook, callId, parent } of branches) {
    const branch = parent.link.callId;
    const used = parent.usageBeside(draft.after.changes.branches?.[branch] ?? []);
    const effects = recordedUsage(undefined, used);
    if (used.length > 0)
      draft.add({ type: `x.${name}`, effects, hook, branch, ...(callId !== undefined && { callId }) });
    parent.end();
  }
}

function checkObject(name: string, value: unknown): void {
  if (typeof value === 'object' && !Array.isArray(value)) return;
  throw new TypeError(`its ${name} must be an object, not ${Array.isArray(value) ? 'a list' : shownValue(value)}`);
}

const eventMembers: Readonly<Record<keyof EmittedEvent, true>> = { name: true, payload: true, label: true };
const mostEvents = 100;
const mostEventBytes = 256 * 1024;

/** Validates the events of one answer and converts them to their JSON form. */
function checkedEvents(events: readonly EmittedEvent[] | undefined): readonly EmittedEvent[] {
  if (events === undefined) return [];
  if (!Array.isArray(events)) throw new TypeError(`its events must be an array, not ${shownValue(events)}`);
  if (events.length > mostEvents)
    throw new TypeError(`it gives ${events.length} events at once, at most ${mostEvents}`);
  const checked = events.map((event, index) => checkedEvent(event, `events[${index}]`));
  const bytes = Buffer.byteLength(JSON.stringify(checked));
  if (bytes <= mostEventBytes) return checked;
  throw new TypeError(
    `its events take ${bytes} bytes as JSON, at most ${mostEventBytes}; put large content into an artifact`,
  );
}

function checkedEvent(event: EmittedEvent, at: string): EmittedEvent {
  if (!isObject(event)) throw new TypeError(`${at} must be { name, payload, label }, not ${shownValue(event)}`);
  const stray = Object.keys(event).find((member) => !Object.hasOwn(eventMembers, member));
  if (stray !== undefined)
    throw new TypeError(`${at} has "${stray}", which is unknown; give ${Object.keys(eventMembers).join(', ')}`);
  const { name, payload, label } = event;
  if (name !== undefined && !(typeof name === 'string' && /^[\w.-]{1,100}$/.test(name)))
    throw new TypeError(`${at}.name must be 1-100 letters, digits, "-", "_" and ".", not ${shownValue(name)}`);
  if (label !== undefined && !(typeof label === 'string' && label.trim() !== '' && label.length <= 200))
    throw new TypeError(`${at}.label must be a line of 1-200 characters, not ${shownValue(label)}`);
  return {
    ...(name === undefined ? {} : { name }),
    ...(payload === undefined ? {} : { payload: jsonOf(`${at}.payload`, payload) }),
    ...(label === undefined ? {} : { label }),
  };
}

function checkedMessages(name: 'messages' | 'given', messages: readonly Message[]): readonly Message[] {
  if (Array.isArray(messages)) jsonOf(name, unfrozen(messages), maxMessageDepth);
  checkMessages(messages);
  return messages;
}

function checkedResults(
  results: Readonly<Record<string, Content>>,
  { state: { closedCalls } }: ChangeOrigin,
): Readonly<Record<string, Content>> {
  for (const [callId, content] of Object.entries(results)) {
    if (!closedCalls.some((closed) => closed.callId === callId)) {
      const known = closedCalls.map((closed) => closed.callId).join(', ') || 'none';
      throw new TypeError(`results names the call "${callId}"; the calls of this iteration are: ${known}`);
    }
    checkContent(content, `the result of "${callId}"`);
  }
  return results;
}

function checkedSettings(settings: TurnOverrides): TurnOverrides {
  const flaw = settingsFlaw(settings);
  if (flaw) throw new TypeError(flaw.join('; '));
  const { systemPrompt, maxIterations } = settings;
  if (systemPrompt !== undefined && typeof systemPrompt !== 'string') {
    throw new TypeError(`systemPrompt must be a string, not ${shownValue(systemPrompt)}`);
  }
  if (maxIterations !== undefined && !(Number.isSafeInteger(maxIterations) && maxIterations >= 1)) {
    throw new TypeError(`maxIterations must be a whole number of at least 1, not ${shownValue(maxIterations)}`);
  }
  const { providerOptions, responseFormat } = settings;
  if (providerOptions) jsonOf('settings.providerOptions', providerOptions);
  if (responseFormat) jsonOf('settings.responseFormat', responseFormat);
  return settings;
}

/** The changes by name. Tools passed as objects are added to the turn's tools. */
function namesOf(
  { add = [], remove = [] }: NonNullable<StepChange['tools']>,
  { deps }: ChangeOrigin,
): NonNullable<Effects['tools']> {
  const added = add.flatMap((each) => (typeof each === 'string' ? [knownTool(each, deps)] : addedTools(each, deps)));
  return { add: added, remove: remove.map(String) };
}

function knownTool(name: string, { segment: { tools } }: HookDeps): string {
  if (tools.byName.has(name)) return name;
  const known = [...tools.byName.keys()].join(', ') || 'none';
  throw new TypeError(`there is no tool "${name}" to add; the turn knows: ${known}`);
}

function addedTools(provider: ToolProvider, { segment }: HookDeps): readonly string[] {
  const { tools, turn, authContext, context } = segment;
  if (typeof provider?.getTools !== 'function') throw new TypeError('tools.add takes names and tool providers');
  const offered = collectTools([provider], { authContext, context, ...turn });
  if (offered instanceof Promise) throw new TypeError('a tool provider that is added has to list its tools at once');
  tools.add(offered.filter(({ definition }) => tools.byName.get(definition.function.name)?.provider !== provider));
  return offered.map(({ definition }) => definition.function.name);
}

function checkedTrue(name: 'repeat' | 'withhold'): (given: unknown) => true {
  return (given) => {
    if (given === true) return true;
    throw new TypeError(`${name} must be true or false, not ${shownValue(given)}`);
  };
}

function checkedFinish(finish: Finish): Finish {
  const { text, value, reason } = finish;
  if (text !== undefined && typeof text !== 'string') {
    throw new TypeError(`finish.text must be a string, not ${shownValue(text)}`);
  }
  if (reason !== undefined && typeof reason !== 'string') {
    throw new TypeError(`finish.reason must be a string, not ${shownValue(reason)}`);
  }
  return value === undefined ? finish : { ...finish, value: jsonOf('finish.value', value) };
}

/** Errors: `TypeError`, also for a view of another context, whose messages are not the turn's. */
function checkedView(view: MessageView, { state }: ChangeOrigin): MessageView {
  const { contextId, last, parts } = view;
  if (contextId !== state.turn.contextId)
    throw new TypeError(`givenFrom.contextId must be the context of the turn, not ${shownValue(contextId)}`);
  if (typeof last !== 'string')
    throw new TypeError(`givenFrom.last must be the id of a message, not ${shownValue(last)}`);
  if (!Array.isArray(parts)) throw new TypeError(`givenFrom.parts must be a list, not ${shownValue(parts)}`);
  checkMessages(parts.filter((part) => !Array.isArray(part)));
  for (const part of parts) if (Array.isArray(part)) for (const count of part) checkedCount('givenFrom.parts', count);
  return view;
}

function checkedCount(name: string, count: number): number {
  if (Number.isSafeInteger(count) && count >= 0) return count;
  throw new TypeError(`${name} must be an integer of at least 0, not ${shownValue(count)}`);
}

function checkedChoice({ to, reason, callId, note }: AgentChoice, { deps }: ChangeOrigin): AgentChoice {
  if (typeof to !== 'string') throw new TypeError(`agent.to must be the id of an agent, not ${shownValue(to)}`);
  if (!deps.segment.config.agents?.(to)) throw new TypeError(`agents does not know the agent "${to}"`);
  if (typeof reason !== 'string') throw new TypeError(`agent.reason must be a string, not ${shownValue(reason)}`);
  if (note !== undefined && typeof note !== 'string')
    throw new TypeError(`agent.note must be a string, not ${shownValue(note)}`);
  return { to, reason, ...(callId !== undefined && { callId }), ...(note !== undefined && { note }) };
}

function checkedUsage(usage: Usage): Usage {
  for (const name of ['promptTokens', 'completionTokens', 'totalTokens'] as const) {
    if (Number.isFinite(usage[name]) && usage[name] >= 0) continue;
    throw new TypeError(`usage.${name} must be a number from 0, not ${shownValue(usage[name])}`);
  }
  return usage;
}

/** Converts a value to its JSON form. Throws if it has none, naming the member. */
export function jsonOf(name: string, value: unknown, levels = maxJsonDepth): unknown {
  const normal = givenJson(value, levels);
  if (normal !== undefined) return normal;
  throw new TypeError(
    `${name} is not JSON of at most ${levels} levels; pass strings, numbers, arrays or plain objects`,
  );
}

/**
 * The record of a hand-off to the chosen agent, for the append that closes the iteration:
 * `agent.changed`, or the failure of a turn with more than `maxHandOffs` hand-offs. `undefined` if no agent was chosen, while
 * calls are open, and before the current agent's `afterIteration` was called: the recorded choice then takes effect later.
 */
export function agentChange(deps: Pick<HookDeps, 'segment' | 'hooks'>, state: LoopState): TurnRecord | undefined {
  const agent = state.changes.agent ?? named(state);
  if (agent === undefined || state.outcome || state.phase === 'tools' || state.phase === 'llm') return undefined;
  if (isIterationOpen(deps, state)) return undefined;
  const { maxHandOffs } = deps.segment.config;
  if (agent.reason === 'hand_off' && state.segment.handOffs >= maxHandOffs) {
    const message = `The turn was handed over more than ${maxHandOffs} times (maxHandOffs); agent "${state.agentId}" had it last.`;
    return failed('LIMIT', message, { reason: 'max_hand_offs', details: { maxHandOffs, agentId: state.agentId } });
  }
  return { type: 'agent.changed', from: state.agentId, ...agent };
}

/** The agent that the caller named runs the turn after `beforeTurn`. */
function named({ turn, agentChanges }: LoopState): AgentChoice | undefined {
  const { agentId } = turn.settings;
  return agentId === undefined || agentChanges > 0 ? undefined : { to: agentId, reason: 'named' };
}

/** Whether `afterIteration` has yet to be called for the last iteration of the current agent. */
export function isIterationOpen({ hooks }: Pick<HookDeps, 'hooks'>, state: LoopState): boolean {
  return state.iteration > state.segment.after && hooks.isDue('afterIteration', state);
}
