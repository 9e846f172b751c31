import type { Tool, ToolProvider } from '../core/contracts/index.ts';
import type { OutputSchema } from '../extensions/structured-output/output-options.ts';
import { anObject, checkOption } from '../options/option-rules.ts';
import { Agent } from './agent.ts';
import type {
  AgentChanges,
  AgentExtension,
  AgentOptions,
  Dependencies,
  KnownTools,
  OtherTools,
  ValueOfTurns,
} from './agent-options.ts';
import { changedOptions, resolveAgent } from './resolve-agent.ts';
import type { AgentInternals } from './turn-configs.ts';

/** `agent`, with the type of `context`. */
export type AgentFactory<C> = <
  D extends Dependencies = Dependencies,
  const S extends OutputSchema = never,
  X extends Tool<unknown, C> = never,
  V = undefined,
  P extends readonly ToolProvider[] | undefined = undefined,
>(
  options: AgentOptions<D, S, C, X, AgentExtension<V, X, P>> & OtherTools<P>,
) => Agent<ValueOfTurns<S, V>, C, KnownTools<X, P>>;

/**
 * Creates an agent. Calls no provider, store or tool; later changes of the options object have no effect. Errors: `INVALID_CONFIG`,
 * naming the option and the fix.
 *
 * The value of its turns has the type of its output schema, or of an extension with a value (`ValueExtension`); without either it is `undefined`.
 * Events of tool calls are typed by tool name, for tools created by `tool`, if the agent has no `toolProviders`.
 *
 * `agent<Context>()` returns this function for agents whose turns have a `context` of that type, as tools created by `tool<Context>()` receive it.
 */
export function agent<C>(): AgentFactory<C>;
export function agent<
  D extends Dependencies = Dependencies,
  const S extends OutputSchema = never,
  X extends Tool = never,
  V = undefined,
  P extends readonly ToolProvider[] | undefined = undefined,
>(
  options: AgentOptions<D, S, unknown, X, AgentExtension<V, X, P>> & OtherTools<P>,
): Agent<ValueOfTurns<S, V>, unknown, KnownTools<X, P>>;
export function agent(...given: readonly [] | readonly [AgentOptions]): Agent | ((options: AgentOptions) => Agent) {
  return given.length === 0 ? checkedAgent : checkedAgent(given[0]);
}

function checkedAgent(options: AgentOptions): Agent {
  checkOption('the options of an agent', options, { ...anObject, cure: 'write agent({ name, provider })' });
  return madeOf(options, {}, {});
}

function madeOf<D extends Dependencies>(
  options: AgentOptions<D>,
  changes: AgentChanges,
  internals: AgentInternals,
): Agent {
  const all = changedOptions(options, changes);
  return Agent.made(resolveAgent(all), internals, (more, shared) => madeOf(all, more, { ...internals, ...shared }));
}
