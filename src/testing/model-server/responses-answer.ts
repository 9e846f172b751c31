import type { Usage } from '../../core/contracts/index.ts';
import type { GivenState } from './given-state.ts';
import { created, type ModelAnswer, piecesOf } from './model-answer.ts';
import type { AnswerForm } from './wire.ts';

type Item = Readonly<Record<string, unknown>> & { readonly id: string };

/** The id of the reasoning item of an answer. */
export function reasoningId({ id }: ModelAnswer): string {
  return id.replace(/^resp_/, 'rs_');
}

/** The output of an answer: reasoning, text, calls. */
export function outputItems(answer: ModelAnswer, given: GivenState): readonly Item[] {
  const hash = answer.id.replace(/^resp_/, '');
  const id = reasoningId(answer);
  const summary = answer.reasoning === '' ? [] : [{ type: 'summary_text', text: answer.reasoning }];
  const content = [{ type: 'output_text', text: answer.text, annotations: [], logprobs: [] }];
  return [
    ...(answer.hasState ? [{ id, type: 'reasoning', summary, encrypted_content: given.seal(answer.model, id) }] : []),
    ...(answer.text === ''
      ? []
      : [{ id: `msg_${hash}`, type: 'message', status: 'completed', role: 'assistant', content }]),
    ...answer.calls.map((call, index) => ({
      id: `fc_${hash}_${index}`,
      type: 'function_call',
      status: 'completed',
      call_id: call.id,
      name: call.name,
      arguments: call.arguments,
    })),
  ];
}

/** Answers in the form of OpenAI's Responses API. */
export function responsesForm(given: GivenState): AnswerForm {
  return {
    namesEvents: true,
    end: '',
    refusal: (error) => error.body(),
    failure: (error) => ({ type: 'error', sequence_number: 0, ...error, error }),
    whole: (answer) => responseOf(answer, endOf(answer), outputItems(answer, given)),
    *content(answer, chunkSize) {
      const response = responseOf(answer, { status: 'in_progress' }, []);
      yield { type: 'response.created', sequence_number: 0, response };
      for (const [index, item] of outputItems(answer, given).entries())
        yield* itemEvents(item, { index, answer, chunkSize });
    },
    *closing(answer) {
      const end = endOf(answer);
      const response = responseOf(answer, end, outputItems(answer, given));
      yield { type: `response.${end.status}`, sequence_number: 0, response };
    },
  };
}

interface ItemPlace {
  readonly index: number;
  readonly answer: ModelAnswer;
  readonly chunkSize: number | undefined;
}

function* itemEvents(item: Item, { index, answer, chunkSize }: ItemPlace): Generator<object> {
  const place = { sequence_number: 0, output_index: index };
  const event = (type: string, rest: object): object => ({
    type: `response.${type}`,
    ...place,
    item_id: item.id,
    ...rest,
  });
  yield { type: 'response.output_item.added', ...place, item: { ...item, ...opened[String(item['type'])] } };
  switch (item['type']) {
    case 'reasoning':
      if (answer.reasoning === '') break;
      yield event('reasoning_summary_part.added', { summary_index: 0, part: { type: 'summary_text', text: '' } });
      for (const delta of piecesOf(answer.reasoning, chunkSize))
        yield event('reasoning_summary_text.delta', { summary_index: 0, delta });
      yield event('reasoning_summary_text.done', { summary_index: 0, text: answer.reasoning });
      yield event('reasoning_summary_part.done', {
        summary_index: 0,
        part: { type: 'summary_text', text: answer.reasoning },
      });
      break;
    case 'message': {
      const part = { type: 'output_text', text: '', annotations: [], logprobs: [] };
      yield event('content_part.added', { content_index: 0, part });
      for (const delta of piecesOf(answer.text, chunkSize))
        yield event('output_text.delta', { content_index: 0, delta, logprobs: [] });
      yield event('output_text.done', { content_index: 0, text: answer.text, logprobs: [] });
      yield event('content_part.done', { content_index: 0, part: { ...part, text: answer.text } });
      break;
    }
    default: {
      const text = String(item['arguments']);
      for (const delta of piecesOf(text, chunkSize)) yield event('function_call_arguments.delta', { delta });
      yield event('function_call_arguments.done', { arguments: text, name: item['name'] });
    }
  }
  yield { type: 'response.output_item.done', ...place, item };
}

/** What an item has in place of its content when it begins. */
const opened: Readonly<Record<string, object>> = {
  reasoning: { summary: [] },
  message: { status: 'in_progress', content: [] },
  function_call: { status: 'in_progress', arguments: '' },
};

interface End {
  readonly status: 'completed' | 'incomplete' | 'in_progress';
  readonly reason?: string;
}

function endOf({ finishReason }: ModelAnswer): End {
  if (finishReason === 'length') return { status: 'incomplete', reason: 'max_output_tokens' };
  return finishReason === 'content_filter'
    ? { status: 'incomplete', reason: 'content_filter' }
    : { status: 'completed' };
}

function responseOf(answer: ModelAnswer, { status, reason }: End, output: readonly Item[]): object {
  return {
    id: answer.id,
    object: 'response',
    created_at: created,
    status,
    error: null,
    incomplete_details: reason === undefined ? null : { reason },
    instructions: null,
    metadata: {},
    model: answer.model,
    output,
    parallel_tool_calls: true,
    tool_choice: 'auto',
    tools: [],
    ...(status !== 'in_progress' && answer.usage && { usage: wireUsage(answer.usage) }),
  };
}

function wireUsage({ promptTokens, completionTokens, totalTokens, cachedTokens, reasoningTokens }: Usage): object {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens ?? 0 },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens ?? 0 },
    total_tokens: totalTokens,
  };
}
