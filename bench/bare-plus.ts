import { type Context, ROOT_CONTEXT, type Tracer, trace } from '@opentelemetry/api';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { LLMResponse, Message, ToolCall } from 'millrace';
import { type EchoArguments, echo, echoParameters } from './echo-tool.ts';
import type { FakeModel } from './fake-model.ts';

const validate = new Ajv2020({ allErrors: true }).compile<EchoArguments>(echoParameters);

/** A listener that the loop waits for. */
export type Listener = (event: Readonly<Record<string, unknown>>) => Promise<void>;

/**
 * The second baseline: the loop by hand with schema validation, a listener that is awaited, four spans an iteration through the
 * OpenTelemetry API, and an append-only journal in memory.
 */
export function barePlus(model: FakeModel, listener: Listener): Promise<string> {
  return new BarePlus(listener).run(model);
}

class BarePlus {
  readonly #listener: Listener;
  readonly #tracer: Tracer = trace.getTracer('bench');
  readonly #journal: Readonly<Record<string, unknown>>[] = [];

  constructor(listener: Listener) {
    this.#listener = listener;
  }

  async run(model: FakeModel): Promise<string> {
    const messages: Message[] = [{ role: 'user', content: 'Hello' }];
    for (let iteration = 1; ; iteration++) {
      const [span, context] = this.#span(`iteration[${iteration}]`, ROOT_CONTEXT);
      await this.#write({ type: 'llm.start', iteration });
      const { text, toolCalls } = await this.#ask(model, messages, context);
      await this.#write({ type: 'llm.done', iteration, text, toolCalls });
      messages.push({ role: 'assistant', content: text, toolCalls });
      if (toolCalls.length > 0) messages.push(...(await this.#runAll(toolCalls, context)));
      span.end();
      if (toolCalls.length === 0) return text;
    }
  }

  async #ask(model: FakeModel, messages: readonly Message[], parent: Context) {
    const [span] = this.#span('llm.call', parent);
    let text = '';
    let response: LLMResponse | undefined;
    for await (const chunk of model(messages)) {
      if (chunk.type === 'done') {
        response = chunk.response;
      } else if (chunk.type === 'text') {
        text += chunk.text;
        await this.#listener({ type: 'delta', text: chunk.text });
      }
    }
    span.end();
    return { text, toolCalls: response?.toolCalls ?? [] };
  }

  async #runAll(toolCalls: readonly ToolCall[], parent: Context): Promise<readonly Message[]> {
    const [span, context] = this.#span('tools.execute', parent);
    const results = await Promise.all(toolCalls.map((call) => this.#runOne(call, context)));
    span.end();
    return results;
  }

  async #runOne(call: ToolCall, parent: Context): Promise<Message> {
    const [span] = this.#span(`tool[${call.function.name}]`, parent);
    const given: unknown = JSON.parse(call.function.arguments);
    if (!validate(given)) throw new Error(`The arguments of "${call.function.name}" do not fit its schema.`);
    await this.#write({ type: 'tool.intent', callId: call.id, arguments: given });
    const content = await echo(given);
    await this.#write({ type: 'tool.result', callId: call.id, content });
    span.end();
    return { role: 'tool', toolCallId: call.id, content };
  }

  #span(name: string, parent: Context) {
    const span = this.#tracer.startSpan(name, { attributes: { 'bench.name': name } }, parent);
    return [span, trace.setSpan(parent, span)] as const;
  }

  /** A record, and the event that shows it. */
  async #write(record: Readonly<Record<string, unknown>>): Promise<void> {
    this.#journal.push(record);
    await this.#listener(record);
  }
}
