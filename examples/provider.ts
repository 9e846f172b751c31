import {
  AgentLoop,
  AgentLoopError,
  fromAsyncIterable,
  type LLMCallParams,
  type LLMChunk,
  type LLMProvider,
  type LLMResponse,
  retry,
  textOf,
} from 'millrace';

let calls = 0;

/** Simulates the SDK of a vendor: it streams, can be aborted at any time, and fails at first. */
async function* chunksOf({ messages }: LLMCallParams, signal: AbortSignal): AsyncGenerator<LLMChunk> {
  if (++calls === 1) {
    throw new AgentLoopError('PROVIDER_RATE_LIMIT', 'the parrot sleeps', { retryable: true, retryAfterMs: 50 });
  }
  const content = `${textOf(messages.at(-1)?.content)} Squawk!`;
  for (const text of content.split(/(?<= )/)) {
    signal.throwIfAborted();
    yield { type: 'text', text };
  }
  yield { type: 'done', response: { message: { role: 'assistant', content }, finishReason: 'stop' } };
}

const parrot: LLMProvider = {
  info: { providerName: 'parrot', model: 'parrot-1' },
  capabilities: { tools: false },
  // Unsubscribing aborts the request, also while it is silent.
  stream: (params) => fromAsyncIterable(({ signal }) => chunksOf(params, signal)),
  async call(params): Promise<LLMResponse> {
    for await (const chunk of chunksOf(params, params.signal ?? new AbortController().signal))
      if (chunk.type === 'done') return chunk.response;
    throw new AgentLoopError('PROVIDER_PROTOCOL', 'the stream ended without an answer');
  },
};

const loop = new AgentLoop({ agentId: 'parrot', llmProvider: retry()(parrot) });
const turn = loop.startTurn([{ role: 'user', content: 'Pieces of eight!' }]);
turn.subscribe((event) => {
  if (event.kind === 'internal:llm-attempt-discarded') console.log(`[void: ${event.reason}]`);
  if (event.kind !== 'artifact-update') return;
  for (const part of event.artifact.parts) if (part.kind === 'text') console.log('piece:', part.text);
});
console.log('whole:', (await turn.result()).text, `(${calls} requests)`);
