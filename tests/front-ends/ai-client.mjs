// The client of the AI SDK in a process of its own: node ai-client.mjs <6|7> <address> <what the user says> [approve|reject]. Prints what it has in the end.
const [sdk, address, text, decision] = process.argv.slice(2);
const {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  uiMessageChunkSchema,
} = await import(sdk === '6' ? 'ai-6' : 'ai');

const raw = [];
const spying = async (...given) => {
  const response = await fetch(...given);
  const [shown, kept] = response.body ? response.body.tee() : [null, null];
  raw.push(kept ? new Response(kept).text() : '');
  return new Response(shown, { status: response.status, headers: response.headers });
};

class Chat extends AbstractChat {
  constructor(options) {
    const state = {
      status: 'ready',
      error: undefined,
      messages: [],
      pushMessage: (message) => state.messages.push(message),
      popMessage: () => state.messages.pop(),
      replaceMessage: (index, message) => {
        state.messages[index] = structuredClone(message);
      },
      snapshot: (value) => structuredClone(value),
    };
    super({ ...options, state });
  }
}

const toolCalls = [];
const chat = new Chat({
  id: `chat-${sdk}-${text}-${decision}`,
  transport: new DefaultChatTransport({ api: `${address}/api/chat${sdk === '6' ? '-6' : ''}`, fetch: spying }),
  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  onToolCall: ({ toolCall }) => void toolCalls.push(toolCall),
});
await chat.sendMessage({ text });
const waiting = chat.lastMessage?.parts.find(({ state }) => state === 'approval-requested');
if (waiting) {
  await chat.addToolApprovalResponse({ id: waiting.approval.id, approved: decision === 'approve' });
  for (let times = 0; times < 200 && (raw.length < 2 || chat.status !== 'ready'); times++)
    await new Promise((resolve) => setTimeout(resolve, 10));
}

const bytes = (await Promise.all(raw)).join('');
const chunks = [...bytes.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json));
const schema = uiMessageChunkSchema();
const refused = [];
for (const chunk of chunks) if (!(await schema.validate(chunk)).success) refused.push(chunk);
const { messages, status, error } = chat;
const kinds = [...new Set(chunks.map(({ type }) => type))];
console.log(
  JSON.stringify({ messages, status, error: error?.message, refused, kinds, bytes, toolCalls, posts: raw.length }),
);
