import { ROOT_CONTEXT } from '@opentelemetry/api';
import { Observable } from 'rxjs';
import {
  AgentLoopError,
  type ArgumentChecker,
  type Extension,
  type HookContext,
  type LLMCallParams,
  type LLMChunk,
  parsedJson,
  stableJson,
  type ToolCall,
  type ToolContext,
  type ToolDefinition,
  type ToolProvider,
  type ToolResult,
  type Usage,
} from '../../core/contracts/index.ts';
import { RepeatedCalls } from '../../core/model-call/index.ts';
import { onAbort } from '../../core/streams/index.ts';
import { jsonSchemaChecks } from '../../tools/schema-checks.ts';
import { wrapping } from '../../tools/wrapped-tools.ts';
import { type AroundCall, aroundCalls } from '../usage/around-calls.ts';

/** A tool provider whose tools start early, and the extension that starts them. A loop needs both. */
export interface EagerTools {
  /** The tools, for `toolProviders`. */
  readonly toolProvider: ToolProvider;
  readonly extension: Extension;
}

/**
 * Starts the `readOnly` tools of a provider as soon as the model has streamed all arguments of a call, while the answer continues. The
 * call has no record and no event until its intent is durable, as any other; then it receives the result of the early run, if the arguments
 * are still the same. A discarded or aborted attempt aborts its early runs. If an early run fails, its result is dropped, and the call runs as usual.
 *
 * An early run bypasses approval, so tools with `needsApproval` do not start early, and the hooks of other extensions: do not pass
 * tools that those deny. Early runs emit no progress and cannot `ask`. Call this once per provider.
 */
export function eagerTools(provider: ToolProvider): EagerTools {
  const early = new EarlyRuns(provider);
  const toolProvider: ToolProvider = {
    name: provider.name ?? provider.constructor.name,
    getTools(context) {
      const definitions = provider.getTools(context);
      return definitions instanceof Promise ? definitions.then((all) => early.know(all)) : early.know(definitions);
    },
    executeTool: (call, context) => early.take(call, context) ?? provider.executeTool(call, context),
  };
  return {
    toolProvider: wrapping(toolProvider, provider),
    extension: {
      name: `eager-tools.${(provider.name ?? provider.constructor.name).replace(/[^\w.-]/g, '-')}`,
      beforeLLMCall: (_, context) => ({ provider: aroundCalls(context.provider, startingEarly(early, context)) }),
      afterIteration: ({ taskId }) => early.drop(taskId),
      afterTurn: ({ taskId }) => early.drop(taskId),
    },
  };
}

/** Starts complete calls, and aborts early runs of a discarded attempt or an aborted call. */
function startingEarly(early: EarlyRuns, context: HookContext): AroundCall {
  const { taskId } = context;
  return (chunks, params) =>
    new Observable((to) => {
      let calls = new StreamedCalls();
      let done = false;
      to.add(() => {
        if (!done) early.drop(taskId);
      });
      to.add(
        chunks.subscribe({
          next(chunk) {
            if (chunk.type === 'attempt') {
              early.drop(taskId);
              calls = new StreamedCalls();
            }
            done ||= chunk.type === 'done';
            const complete = chunk.type === 'tool-call' ? calls.add(chunk) : undefined;
            if (complete) early.start(complete, context, params);
            to.next(chunk);
          },
          error: (error: unknown) => to.error(error),
          complete: () => to.complete(),
        }),
      );
    });
}

interface EarlyRun {
  readonly name: string;
  /** Its arguments; `undefined` until they are validated. */
  arguments: string | undefined;
  readonly controller: AbortController;
  readonly result: Promise<ToolResult | undefined>;
  /** Usage of its own model calls. */
  readonly usages: Usage[];
}

/** The early runs, by turn and call. */
class EarlyRuns {
  readonly #provider: ToolProvider;
  readonly #definitions = new Map<string, ToolDefinition>();
  readonly #runs = new Map<string, Map<string, EarlyRun>>();

  constructor(provider: ToolProvider) {
    this.#provider = provider;
  }

  know(definitions: readonly ToolDefinition[]): readonly ToolDefinition[] {
    for (const definition of definitions) this.#definitions.set(definition.function.name, definition);
    return definitions;
  }

  start(streamed: StreamedCall, context: HookContext, params: LLMCallParams): void {
    const definition = this.#definitions.get(streamed.call.function.name);
    if (!definition?.readOnly || definition.needsApproval || definition.sequential) return;
    const { taskId } = context;
    const callId = `${context.iteration}:${streamed.index}`;
    const controller = new AbortController();
    const execute = async (): Promise<ToolResult | undefined> => {
      const check = await this.#checkOf(definition)(streamed.arguments);
      if (!check.ok || controller.signal.aborted) return undefined;
      run.arguments = stableJson(check.value);
      const noteUsage = (usage: Usage) => void run.usages.push(usage);
      const place = { callId, call: streamed.call, arguments: check.value, signal: controller.signal, noteUsage };
      return this.#provider.executeTool(streamed.call, earlyContext(context, params, place));
    };
    const result = Promise.resolve()
      .then(execute)
      .catch(() => undefined);
    const run: EarlyRun = { name: definition.function.name, arguments: undefined, controller, result, usages: [] };
    const runs = this.#runs.get(taskId) ?? new Map<string, EarlyRun>();
    this.#runs.set(taskId, runs.set(callId, run));
  }

  /** The same check as that of the loop. */
  #checkOf({ checkArguments, function: { name, parameters } }: ToolDefinition): ArgumentChecker {
    const provider = this.#provider.name ?? this.#provider.constructor.name;
    return checkArguments ?? jsonSchemaChecks(parameters, `tool "${name}" of ${provider}`);
  }

  /** The result of a call's early run, or of a normal run if that failed. `undefined` if the call was not started early. */
  take(call: ToolCall, context: ToolContext): Promise<ToolResult> | undefined {
    const run = this.#runs.get(context.taskId)?.get(context.callId);
    if (!run || run.name !== call.function.name || context.attempt > 1) return undefined;
    this.#runs.get(context.taskId)?.delete(context.callId);
    return this.#finish(run, call, context);
  }

  async #finish(run: EarlyRun, call: ToolCall, context: ToolContext): Promise<ToolResult> {
    const abort = () => run.controller.abort(context.signal.reason);
    if (context.signal.aborted) abort();
    const leave = onAbort(context.signal, abort);
    const result = await run.result;
    run.usages.forEach(context.noteUsage);
    leave();
    if (context.signal.aborted) throw context.signal.reason;
    const same = run.arguments === stableJson(context.arguments);
    if (result?.success && same) return { ...result, toolCallId: call.id };
    return this.#provider.executeTool(call, context);
  }

  /** Aborts the early runs that no call of the turn has used. */
  drop(taskId: string): undefined {
    for (const { controller } of this.#runs.get(taskId)?.values() ?? []) {
      controller.abort(new AgentLoopError('CANCELED', 'The call that this was started for is not made.'));
    }
    this.#runs.delete(taskId);
  }
}

/** The context of an early run: that of the call, without the parts that need its record. */
function earlyContext(
  hook: HookContext,
  { traceContext = ROOT_CONTEXT }: LLMCallParams,
  place: Pick<ToolContext, 'callId' | 'call' | 'arguments' | 'signal' | 'noteUsage'>,
): ToolContext {
  const { taskId, agentId, contextId, metadata, authContext, context, iteration } = hook;
  return {
    ...{ taskId, agentId, contextId, metadata, authContext, context, iteration, traceContext },
    /** Without the response, which is still streaming. */
    get messages() {
      return hook.state.messages;
    },
    ...place,
    idempotencyKey: `${taskId}:${place.callId}`,
    attempt: 1,
    ask: () => {
      throw new AgentLoopError('INVALID_INPUT', 'A tool that was started early cannot ask; it runs again to do so.');
    },
    progress: () => {},
  };
}

/** A call with complete arguments in a response that is still streaming. */
interface StreamedCall {
  /** Position in the response, from 0. */
  readonly index: number;
  readonly call: ToolCall;
  readonly arguments: unknown;
}

interface GrowingCall {
  id: string;
  name: string;
  text: string;
  complete: boolean;
}

/** Assembles the calls of one attempt from their fragments. */
class StreamedCalls {
  readonly #calls = new Map<number, GrowingCall>();
  readonly #complete = new RepeatedCalls();

  /** Returns the call that a fragment completes, once: its arguments are then a whole JSON object. Not if it repeats an earlier call. */
  add(chunk: Extract<LLMChunk, { type: 'tool-call' }>): StreamedCall | undefined {
    const { index } = chunk;
    const growing = this.#calls.get(index) ?? { id: '', name: '', text: '', complete: false };
    this.#calls.set(index, growing);
    growing.id ||= chunk.id ?? '';
    growing.name ||= chunk.name ?? '';
    growing.text += chunk.arguments ?? '';
    if (growing.complete || growing.name === '' || !chunk.arguments?.trimEnd().endsWith('}')) return undefined;
    const args = wholeObject(growing.text);
    if (args === undefined) return undefined;
    growing.complete = true;
    const call: ToolCall = {
      id: growing.id,
      type: 'function',
      function: { name: growing.name, arguments: growing.text },
    };
    return this.#complete.repeats(call) ? undefined : { index, call, arguments: args };
  }
}

function wholeObject(text: string): unknown {
  try {
    return parsedJson(text);
  } catch {
    return undefined;
  }
}
