// `useChat` without its page: node quick-start-client.mjs <address of the chats> <chat> ask|resume. Prints the messages that the client has in the end.
// ask: about an order, then for a refund, which it approves. resume: reads the conversation, and follows the turn that is open.
import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai';

const [api, id, what] = process.argv.slice(2);

class Chat extends AbstractChat {
  constructor(options) {
    const state = {
      status: 'ready',
      error: undefined,
      messages: options.messages,
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

const before = await fetch(`${api}/${id}/messages`);
let finished = () => {};
const chat = new Chat({
  id,
  // A new chat is a 404.
  messages: before.ok ? await before.json() : [],
  transport: new DefaultChatTransport({ api }),
  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  onFinish: () => finished(),
});
if (what === 'resume') await chat.resumeStream();
else {
  await chat.sendMessage({ text: 'What is the status of order A-1?' });
  await chat.sendMessage({ text: 'Refund order A-2, please.' });
  const { approval } = chat.lastMessage.parts.find(({ state }) => state === 'approval-requested');
  const answered = new Promise((resolve) => {
    finished = resolve;
  });
  await chat.addToolApprovalResponse({ id: approval.id, approved: true });
  await answered;
}
const { messages, status, error } = chat;
console.log(JSON.stringify({ messages, status, error: error?.message }));
process.exit(0);
