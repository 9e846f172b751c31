import type { Context } from '@opentelemetry/api';
import { Observable } from 'rxjs';
import { AgentLoopError, messageOf } from './errors.ts';
import { checkToolsOfOpenCalls } from './in-doubt.ts';
import { handOver } from './operators/hand-over.ts';
import { loopIterations } from './operators/iteration-operators.ts';
import type { Signal } from './signals.ts';
import type { LoopState } from './state.ts';
import { collectTools, noTools, ToolSet } from './tool-set.ts';
import type { RunDeps, TurnDeps } from './turn-deps.ts';

/**
 * The loop of a turn, as soon as its tools are known. A cancel and a drain do not wait for tool providers that do not answer. Errors
 * with what a provider throws, on a turn that is resumed as `MISSING_TOOL`; and with that for an open call of a tool that is gone.
 */
export function loopWithTools(
  deps: RunDeps,
  traceContext: Context,
  resumed: boolean,
): (state: LoopState) => Observable<Signal> {
  return (state) =>
    toolsOf(deps, resumed).pipe(
      handOver((tools) => {
        if (!stopped(deps)) checkToolsOfOpenCalls({ tools }, state);
        return loopIterations(withTools(deps, tools), traceContext)(state);
      }),
    );
}

function stopped({ scope, drain }: RunDeps): boolean {
  return scope.aborted || drain.aborted;
}

/** A turn that is resumed where its tools cannot be had is lost here, not failed: elsewhere, or later, they may be. */
function toolsOf(deps: RunDeps, resumed: boolean): Observable<ToolSet> {
  return new Observable((subscriber) => {
    const give = (tools: ToolSet) => {
      subscriber.next(tools);
      subscriber.complete();
    };
    if (stopped(deps)) return give(noTools);
    const { turn, authContext } = deps;
    const tools = collectTools(deps.config.toolProviders, { ...turn, authContext });
    if (!(tools instanceof Promise)) return give(new ToolSet(tools));
    for (const scope of [deps.scope, deps.drain]) subscriber.add(scope.onAbort(() => give(noTools)));
    tools
      .then((all) => give(new ToolSet(all)))
      .catch((error: unknown) => subscriber.error(resumed ? missingTools(deps, error) : error));
  });
}

function missingTools({ turn }: RunDeps, cause: unknown): AgentLoopError {
  return new AgentLoopError('MISSING_TOOL', messageOf(cause), { cause, retryable: true, taskId: turn.taskId });
}

/** Written out: objects made by spread have a shape each, and everything in the hot path reads this one. */
function withTools(deps: RunDeps, tools: ToolSet): TurnDeps {
  return {
    config: deps.config,
    turn: deps.turn,
    systemPrompt: deps.systemPrompt,
    maxIterations: deps.maxIterations,
    provider: deps.provider,
    authContext: deps.authContext,
    tracing: deps.tracing,
    hooks: deps.hooks,
    checks: deps.checks,
    deciding: deps.deciding,
    scope: deps.scope,
    drain: deps.drain,
    inbox: deps.inbox,
    openCall: deps.openCall,
    hold: deps.hold,
    epoch: deps.epoch,
    now: deps.now,
    tools,
  };
}
