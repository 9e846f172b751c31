import { agent, tool } from 'millrace';

const refund = tool({
  name: 'refund',
  description: 'Refunds, if somebody says so',
  parameters: { type: 'object', properties: {} },
  needsApproval: true,
  execute: () => 'refunded',
});
const call = { id: 'c', type: 'function', function: { name: 'refund', arguments: '{}' } };
const answer = ({ messages }) => {
  const last = messages.at(-1);
  return last.role === 'tool'
    ? { role: 'assistant', content: `So: ${last.content}` }
    : { role: 'assistant', content: null, toolCalls: [call] };
};

export default agent({
  id: 'clerk',
  tools: [refund],
  provider: {
    call: async (params) => ({ message: answer(params) }),
    async *stream(params) {
      const message = answer(params);
      if (message.content) yield { type: 'text', text: message.content };
      yield { type: 'done', response: { message } };
    },
  },
});
