import {
  type IterationChange,
  type IterationView,
  type JSONSchema,
  type Message,
  textOf,
} from '../../core/contracts/index.ts';
import { xmlTemplate } from './xml/xml-template.ts';

type ViewChange = NonNullable<IterationChange['view']>;

/** Asks for an answer in the form of the schema. One that is forced to answer is offered no tools. */
export function nativeView(
  { tools }: IterationView,
  { name, schema, forced }: { readonly name: string; readonly schema: JSONSchema; readonly forced: boolean },
): ViewChange {
  const names = forced ? [] : tools.map((tool) => tool.function.name).filter((each) => each !== name);
  return { tools: names, settings: { responseFormat: { type: 'json_schema', name: 'output', schema } } };
}

/** Asks for the output as XML, after the history. A model that cannot call tools is shown none of their calls. */
export function xmlView(
  { messages, tools }: IterationView,
  { schema, canCallTools }: { readonly schema: JSONSchema; readonly canCallTools: boolean },
): ViewChange {
  const content = `Give the result now, as XML in exactly this form and without any other text:\n\n${xmlTemplate(schema)}`;
  const history = canCallTools ? messages : messages.map(withoutCalls);
  return { messages: [...history, { role: 'user', content }], tools: tools.map((tool) => tool.function.name) };
}

function withoutCalls(message: Message): Message {
  if (message.role === 'tool') return { role: 'user', content: textOf(message.content) };
  if (message.role !== 'assistant' || !message.toolCalls) return message;
  const { toolCalls: _, ...said } = message;
  return { ...said, content: said.content ?? '' };
}
