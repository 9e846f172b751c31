import type { CallToolRequest, CallToolResult, ElicitRequest, ElicitResult, Tool } from '@modelcontextprotocol/client';
import {
  AgentLoopError,
  type ArgumentChecker,
  type JSONSchema,
  messageOf,
  type ToolContext,
  type ToolResult,
  textOf,
} from '../core/contracts/index.ts';
import { carrierFromContext } from '../observability/trace-carrier.ts';
import { foreignSchemaChecker } from '../tools/schema-checks.ts';
import { toolError } from './call-failure.ts';
import { contentOf, withTexts } from './content-parts.ts';
import { OpenCall } from './open-call.ts';
import { defaultIdleMs, noteRequest, type ServerLink } from './server-link.ts';

/** A tool at its server. */
interface ToolTarget {
  readonly tool: Tool;
  /** By the schema that the tool promises for its output. */
  readonly checkOutput: ArgumentChecker | undefined;
}

const defaultTotalMs = 600_000;
const defaultHoldMs = 600_000;
/** Calls that wait for an answer of the user; beyond that the oldest is given up. */
const maxHeld = 100;

/**
 * The calls of one server's tools. An attempt that asks the user leaves its call open at the server, by its idempotency key; the next attempt
 * takes it up, so that the tool runs once where the answer comes in time, and in this process.
 */
export class ToolCalls {
  readonly #link: ServerLink;
  readonly #held = new Map<string, OpenCall>();

  constructor(link: ServerLink) {
    this.#link = link;
  }

  /** One attempt. Rejects with the tool error, in words for the model, or with what `ask` throws. */
  async run(target: ToolTarget, context: ToolContext): Promise<ToolResult> {
    const call = this.#taken(context.idempotencyKey) ?? this.#start(target, context);
    const leave = () => call.leave({ kind: 'canceled', what: 'was left' });
    if (context.signal.aborted) leave();
    context.signal.addEventListener('abort', leave, { once: true });
    call.attend(context);
    try {
      return await this.#resultOf(await this.#attended(call, context), target, context);
    } finally {
      call.attend(undefined);
      context.signal.removeEventListener('abort', leave);
    }
  }

  /** Gives up all calls that wait for an answer. */
  close(): void {
    for (const call of this.#held.values()) call.leave({ kind: 'canceled', what: 'was closed' });
    this.#held.clear();
  }

  #taken(key: string): OpenCall | undefined {
    const call = this.#held.get(key);
    this.#held.delete(key);
    call?.release();
    return call;
  }

  #start(target: ToolTarget, context: ToolContext): OpenCall {
    const { timeoutMs: idleMs = defaultIdleMs, maxTimeMs: totalMs = defaultTotalMs } = this.#link.server;
    const send = (call: OpenCall, signal: AbortSignal) => this.#send(target, context, { call, signal });
    return new OpenCall({ idleMs, totalMs, send });
  }

  async #send(
    { tool }: ToolTarget,
    context: ToolContext,
    { call, signal }: { readonly call: OpenCall; readonly signal: AbortSignal },
  ): Promise<CallToolResult> {
    const params: CallToolRequest['params'] = {
      name: tool.name,
      arguments: argumentsOf(context.arguments),
      _meta: { 'millrace/idempotency-key': context.idempotencyKey, ...carrierFromContext(context.traceContext) },
    };
    for (let again = false; ; again = true) {
      // The way to the server has limits of its own.
      const connection = await call.outside(() => this.#link.connected());
      noteRequest(context.traceContext, { method: 'tools/call', link: this.#link, connection });
      try {
        return await connection.callTool(params, { call, signal, tool });
      } catch (thrown) {
        const failure = call.left ?? this.#link.failureOf(thrown);
        this.#link.attendTo(failure, connection);
        // Nothing was done: the server does not know the session. One that we have not used before is not worth another try.
        if (failure.kind !== 'session-lost' || again || !connection.proven)
          throw toolError(this.#link.name, failure, true);
      }
    }
  }

  /** The end of a call, with all that its server asks on the way answered. */
  async #attended(call: OpenCall, context: ToolContext): Promise<CallToolResult> {
    for (let before = 0; before < call.answered; before++) context.ask({ prompt: 'asked before' });
    for (;;) {
      const step = await call.next();
      if (step.type === 'result') return step.result;
      if (step.type === 'failed') throw step.error;
      if (step.type === 'left') throw toolError(this.#link.name, step.failure, true);
      const { params, answer } = step.elicitation;
      try {
        const onAnswer = () => call.answered++;
        answer(await askUser(params, { server: this.#link.name, context, onAnswer }));
      } catch (thrown) {
        this.#hold(call, context);
        throw thrown;
      }
    }
  }

  #hold(call: OpenCall, { idempotencyKey, signal }: ToolContext): void {
    if (signal.aborted) return;
    const { elicitation } = this.#link.server;
    const { holdMs = defaultHoldMs } = typeof elicitation === 'object' ? elicitation : {};
    const [oldest] = this.#held.keys();
    if (this.#held.size >= maxHeld && oldest !== undefined)
      this.#taken(oldest)?.leave({ kind: 'canceled', what: 'has too many calls that wait for answers' });
    this.#held.set(idempotencyKey, call);
    call.hold(holdMs, () => this.#held.delete(idempotencyKey));
  }

  async #resultOf(result: CallToolResult, target: ToolTarget, { call }: ToolContext): Promise<ToolResult> {
    const content = contentOf(result);
    if (result.isError === true) {
      const redacted = withTexts(content, (text) => this.#link.secrets.redact(text));
      const error = textOf(redacted) || 'the tool reports a failure';
      return {
        toolCallId: call.id,
        content: redacted === '' ? `Tool error: ${error}` : redacted,
        success: false,
        error,
      };
    }
    const flaw = await outputFlaw(result, target);
    if (flaw === undefined) return { toolCallId: call.id, content, success: true };
    throw new AgentLoopError('TOOL_FAILED', `the MCP server "${this.#link.name}" ${flaw}`);
  }
}

function argumentsOf(given: unknown): Record<string, unknown> {
  return typeof given === 'object' && given !== null ? { ...given } : {};
}

/** A schema that cannot be compiled promises nothing that could be checked. */
async function outputFlaw(
  { structuredContent }: CallToolResult,
  { checkOutput, tool: { name } }: ToolTarget,
): Promise<string | undefined> {
  if (checkOutput === undefined) return undefined;
  if (structuredContent === undefined) return `gave no structured content, which "${name}" promises`;
  try {
    const checked = await checkOutput(structuredContent);
    return checked.ok ? undefined : `gave structured content that is not what "${name}" promises`;
  } catch (thrown) {
    if (AgentLoopError.isInstance(thrown) && thrown.code === 'INVALID_CONFIG') return undefined;
    return `gave structured content that cannot be checked: ${messageOf(thrown)}`;
  }
}

/**
 * Asks the user of the turn a server's question, and returns the answer: what `elicitation/create` expects, `{ action, content }`, or
 * the content alone. An answer that does not match the server's schema is asked for again. Throws without an answer, as `ask` does.
 * `onAnswer` is called for each answer that is taken.
 */
async function askUser(
  params: ElicitRequest['params'],
  {
    server,
    context,
    onAnswer,
  }: { readonly server: string; readonly context: ToolContext; readonly onAnswer: () => void },
): Promise<ElicitResult> {
  const check = checkerOf(params);
  let problem = '';
  for (;;) {
    const prompt = `${params.message}${problem}`;
    const answer = context.ask({
      kind: isUrl(params) ? 'auth' : 'input',
      prompt,
      data: { server, ...shownOf(params) },
    });
    onAnswer();
    const result = resultOf(answer, params);
    const flaw = result.action === 'accept' && check ? await check(result.content ?? {}) : undefined;
    if (flaw === undefined) return result;
    problem = ` (the last answer did not fit: ${flaw})`;
  }
}

function isUrl(params: ElicitRequest['params']): params is Extract<ElicitRequest['params'], { mode: 'url' }> {
  return params.mode === 'url';
}

/** What an answer needs to know. */
function shownOf(params: ElicitRequest['params']): object {
  if (isUrl(params)) return { mode: 'url', url: params.url };
  return { mode: 'form', requestedSchema: params.requestedSchema };
}

type Check = (content: unknown) => Promise<string | undefined>;

/** None for what holds no form, and for a form that cannot be checked: the server checks what it gets. */
function checkerOf(params: ElicitRequest['params']): Check | undefined {
  if (isUrl(params)) return undefined;
  const schema: JSONSchema = params.requestedSchema;
  const checker = foreignSchemaChecker(schema, 'the question of an MCP server');
  return async (content) => {
    try {
      const checked = await checker(content);
      return checked.ok ? undefined : checked.message.replaceAll('arguments', 'content');
    } catch {
      return undefined;
    }
  };
}

/** `{ action, content }` as it is; else the content of a form, or of its one field, or whether somebody went to the address. */
function resultOf(answer: unknown, params: ElicitRequest['params']): ElicitResult {
  if (isUrl(params) && answer === false) return { action: 'decline' };
  if (!isRecord(answer)) {
    const [field = 'value'] = isUrl(params) ? [] : Object.keys(params.requestedSchema.properties);
    return { action: 'accept', content: isUrl(params) ? {} : fieldsOf({ [field]: answer }) };
  }
  const { action } = answer;
  if (action === 'decline' || action === 'cancel') return { action };
  const given = action === 'accept' ? answer['content'] : answer;
  return { action: 'accept', content: isRecord(given) ? fieldsOf(given) : {} };
}

function fieldsOf(given: Readonly<Record<string, unknown>>): NonNullable<ElicitResult['content']> {
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name, isTextList(value) ? value : scalar(value)]),
  );
}

function scalar(value: unknown): string | number | boolean {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value;
  return JSON.stringify(value);
}

function isTextList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
