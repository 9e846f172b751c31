import { AgentLoop, AgentLoopError, InMemoryStateStore, LocalToolProvider, TurnError, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const read = tool({
  name: 'read_page',
  description: 'Reads a page.',
  parameters: { type: 'object', properties: { page: { type: 'integer' } }, required: ['page'] },
  execute({ page }) {
    throw new RangeError(`the book has no page ${page}`);
  },
});
const llmProvider = scriptedLLM([
  { toolCalls: [{ name: 'read_page', arguments: { page: 900 } }, { name: 'reed_page' }] },
  {
    text: 'The book is shorter than that, and then',
    finishReason: 'length',
    usage: { promptTokens: 90, completionTokens: 10, totalTokens: 100 },
  },
]);
const config = { agentId: 'reader', llmProvider, toolProviders: [new LocalToolProvider([read])] };

// Invalid input throws at the call.
try {
  new AgentLoop({ ...config, maxIterations: 0 });
} catch (error) {
  if (AgentLoopError.isInstance(error)) console.log('thrown:', error.code, error.message);
}

// A failed tool is a result that the model reads. A failed turn is its last event; the stream completes.
const turn = new AgentLoop(config).startTurn([{ role: 'user', content: 'Read page 900.' }]);
turn.subscribe({
  next(event) {
    if (event.kind === 'internal:tool-complete') console.log('result:', event.error?.code, event.content);
    if (event.kind === 'status-update' && event.final) console.log('event: ', event.status.state, event.reason);
  },
  complete: () => console.log('the stream completes'),
});
try {
  await turn.result();
} catch (error) {
  if (!(error instanceof TurnError)) throw error;
  console.log('failed:', error.code, error.retryable ? 'worth a retry' : 'not worth a retry');
  console.log('so far:', error.result.messages.length, 'messages,', error.result.usage.totalTokens, 'tokens');
}

// A turn that this process lost errors the stream, without a final status.
const elsewhere = AgentLoop.resume('lost', { ...config, taskStateStore: new InMemoryStateStore() });
elsewhere.subscribe({
  error(error) {
    if (AgentLoopError.isInstance(error)) console.log('errors:', error.code, error.message);
  },
});
