import type { Context } from '@opentelemetry/api';
import { Observable, type Subscriber } from 'rxjs';
import { cancelSpan, failSpan } from '../../observability/spans/tracing-options.ts';
import { AgentLoopError, messageOf } from '../contracts/errors.ts';
import type { ToolProvider } from '../contracts/tool.ts';
import type { Signal } from '../journal/signals.ts';
import type { LoopState } from '../journal/state.ts';
import { checkToolsOfOpenCalls } from '../tool-call/in-doubt.ts';
import { collectTools, noTools, providerName, ToolSet } from '../tool-call/tool-set.ts';
import { DirectSubscriber } from './direct-subscriber.ts';
import { handOver } from './hand-over.ts';
import { loopIterations } from './iteration-operators.ts';
import { stintDeps, stintSpan } from './stint-deps.ts';
import type { RunDeps, TurnDeps } from './turn-deps.ts';

/**
 * The loop of a turn, agent by agent: where another agent has the turn, it continues with the setup of that one. Flat for any number of
 * changes. Errors as `loopStint`, and with `MISSING_AGENT` for an agent that the configuration does not know.
 */
export function loopWithTools(
  deps: RunDeps,
  traceContext: Context,
  resumed: boolean,
): (state: LoopState) => Observable<Signal> {
  if (!deps.config.agents) return loopStint(deps, traceContext, resumed);
  return (state) => new Observable((to) => new Stints({ deps, traceContext, resumed, state, to }).advance());
}

interface StintsOptions {
  readonly deps: RunDeps;
  readonly traceContext: Context;
  readonly resumed: boolean;
  readonly state: LoopState;
  readonly to: Subscriber<Signal>;
}

/** The agents of one run of a turn, one after another. */
class Stints {
  readonly #options: StintsOptions;
  #state: LoopState;
  #advancing = false;
  #again = false;

  constructor(options: StintsOptions) {
    this.#options = options;
    this.#state = options.state;
  }

  /** A trampoline: agents that answer synchronously do not nest. */
  advance(): void {
    this.#again = true;
    if (this.#advancing) return;
    this.#advancing = true;
    try {
      while (this.#again && !this.#options.to.closed) {
        this.#again = false;
        this.#run();
      }
    } catch (error) {
      this.#options.to.error(error);
    }
    this.#advancing = false;
  }

  #run(): void {
    const { deps, traceContext, resumed, to } = this.#options;
    const { agentId } = this.#state;
    const own = this.#deps();
    deps.hooks.begin(own);
    const { span, traceContext: inner } = stintSpan(own, this.#state, traceContext);
    let ended = false;
    const running = new DirectSubscriber<Signal>({
      next: (signal) => {
        if (signal.type === 'commit') this.#state = signal.after;
        to.next(signal);
      },
      error: (error) => {
        ended = true;
        failSpan(span, error);
        span.end();
        to.error(error);
      },
      complete: () => {
        ended = true;
        if (deps.scope.aborted) cancelSpan(span);
        span.end();
        if (this.#state.outcome || this.#state.agentId === agentId) to.complete();
        else this.advance();
      },
    });
    to.add(() => {
      if (ended) return;
      ended = true;
      running.unsubscribe();
      cancelSpan(span);
      span.end();
    });
    loopStint(own, inner, resumed)(this.#state).subscribe(running);
  }

  /** A turn that only has to be closed: no agent has to be known for that. */
  #deps(): RunDeps {
    const { deps } = this.#options;
    try {
      return stintDeps(deps, this.#state);
    } catch (error) {
      if (!onlyCloses(deps, this.#state)) throw error;
      return { ...deps, agentId: this.#state.agentId };
    }
  }
}

/**
 * The loop of one agent, as soon as its tools are known. A cancel and a drain do not wait for tool providers that do not answer. Errors
 * with what a provider throws, on a turn that is resumed as `MISSING_TOOL`; and with that for an open call of a tool that is gone.
 */
function loopStint(deps: RunDeps, traceContext: Context, resumed: boolean): (state: LoopState) => Observable<Signal> {
  return (state) =>
    toolsOf(deps, state, resumed).pipe(
      handOver((tools) => {
        if (!onlyCloses(deps, state)) checkToolsOfOpenCalls({ tools }, state);
        return loopIterations(withTools(deps, tools), traceContext)(state);
      }),
    );
}

/** Whether the turn is stopped, or was resumed too often without getting any further: it calls no tool and no model any more. */
function onlyCloses({ scope, drain, config }: RunDeps, { resumes }: LoopState): boolean {
  return scope.aborted || drain.aborted || resumes > config.maxResumes;
}

/** A turn that is resumed where its tools cannot be had is lost here, not failed: elsewhere, or later, they may be. */
function toolsOf(deps: RunDeps, state: LoopState, resumed: boolean): Observable<ToolSet> {
  return new Observable((subscriber) => {
    const give = (tools: ToolSet) => {
      subscriber.next(tools);
      subscriber.complete();
    };
    if (onlyCloses(deps, state)) return give(noTools);
    const { turn, authContext, context } = deps;
    const waiting = new Set<ToolProvider>();
    const tools = collectTools(deps.config.toolProviders, { authContext, context, ...turn }, waiting);
    if (!(tools instanceof Promise)) return give(new ToolSet(tools));
    const fail = (error: unknown) => subscriber.error(resumed ? missingTools(deps, error) : error);
    const { toolListTimeoutMs: ms, clock } = deps.config;
    if (ms > 0) subscriber.add(clock.schedule(ms, () => fail(lateTools(waiting, ms))));
    for (const scope of [deps.scope, deps.drain]) subscriber.add(scope.onAbort(() => give(noTools)));
    tools.then((all) => give(new ToolSet(all))).catch(fail);
  });
}

function lateTools(waiting: ReadonlySet<ToolProvider>, ms: number): AgentLoopError {
  const names = [...waiting].map(providerName).join(', ');
  const message = `Tool providers did not list their tools within ${ms} ms (toolListTimeoutMs): ${names}.`;
  return new AgentLoopError('TOOL_TIMEOUT', message, { retryable: true });
}

function missingTools({ turn }: RunDeps, cause: unknown): AgentLoopError {
  return new AgentLoopError('MISSING_TOOL', messageOf(cause), { cause, retryable: true, taskId: turn.taskId });
}

/** Written out: objects made by spread have a shape each, and everything in the hot path reads this one. */
function withTools(deps: RunDeps, tools: ToolSet): TurnDeps {
  return {
    config: deps.config,
    turn: deps.turn,
    agentId: deps.agentId,
    systemPrompt: deps.systemPrompt,
    maxIterations: deps.maxIterations,
    provider: deps.provider,
    authContext: deps.authContext,
    context: deps.context,
    tracing: deps.tracing,
    hooks: deps.hooks,
    checks: deps.checks,
    deciding: deps.deciding,
    scope: deps.scope,
    drain: deps.drain,
    inbox: deps.inbox,
    openCall: deps.openCall,
    node: deps.node,
    hold: deps.hold,
    epoch: deps.epoch,
    now: deps.now,
    tools,
  };
}
