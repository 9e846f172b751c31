export async function chatOf({ baseURL, apiKey, endpoint, stream, by, headers, sdk }) {
  const { generateText, streamText } = await import(sdk === 6 ? 'ai-6' : 'ai');
  const { createOpenAI } = await import(sdk === 6 ? '@ai-sdk/openai-6' : '@ai-sdk/openai');
  const openai = createOpenAI({ baseURL, apiKey, headers });
  const model = endpoint === 'chat' ? openai.chat('clerk') : openai('clerk');
  const messages = [];
  let last;
  const before = () => {
    if (by === 'conversation') return { providerOptions: { openai: { conversation: 'conv_1' } } };
    const previousResponseId = last?.providerMetadata?.openai?.responseId;
    return by === 'previous' && last ? { providerOptions: { openai: { previousResponseId } } } : {};
  };
  const ask = async (message) => {
    messages.push(message);
    // It looks for the request that an approval answers in the messages that it is given.
    const given = by === 'history' || endpoint === 'chat' || message.role === 'tool' ? messages : [message];
    last = stream ? await streamed(given) : await generateText({ model, messages: given, ...before() });
    messages.push(...last.response.messages);
    const asks = last.content.filter(({ type }) => type === 'tool-approval-request');
    return { text: last.text, asks: asks.map(({ toolCall }) => ({ name: toolCall.toolName, input: toolCall.input })) };
  };
  const streamed = async (given) => {
    let failure;
    const onError = ({ error }) => {
      failure ??= error;
    };
    const result = streamText({ model, messages: given, ...before(), onError });
    await result.consumeStream({ onError: onError });
    if (failure) throw failure;
    const [content, text, response, providerMetadata] = await Promise.all([
      result.content,
      result.text,
      result.response,
      result.providerMetadata,
    ]);
    return { content, text, response, providerMetadata };
  };
  return {
    say: (content) => ask({ role: 'user', content }),
    decide: (approved) => {
      const { approvalId } = last.content.find(({ type }) => type === 'tool-approval-request');
      return ask({
        role: 'tool',
        content: [{ type: 'tool-approval-response', approvalId, approved, providerExecuted: true }],
      });
    },
  };
}
