import { agentName } from './a2a-client.ts';
import { Chat } from './chat.ts';
import { byId, element } from './element.ts';
import { type Exchange, isOver } from './exchange.ts';
import { ExchangeView } from './exchange-view.ts';

const log = byId('log', HTMLElement);
const empty = byId('empty', HTMLElement);
const composer = byId('composer', HTMLFormElement);
const message = byId('message', HTMLTextAreaElement);
const send = byId('send', HTMLButtonElement);
const stop = byId('stop', HTMLButtonElement);
const status = byId('status', HTMLElement);
const connection = byId('connection', HTMLElement);

const suggestions = ['What is the weather in Oslo?', 'Refund order 17.', 'Book a seat on a train.'];

const views: ExchangeView[] = [];
const drawing = { isPlanned: false };
/** Whether the reader is at the end, and is kept there. */
const reading = { isAtEnd: true };
const chat = new Chat(() => {
  if (!drawing.isPlanned) requestAnimationFrame(render);
  drawing.isPlanned = true;
});

/** Shows the conversation as it is. */
function render(): void {
  drawing.isPlanned = false;
  const { exchanges, isBusy, isConnected } = chat;
  if (exchanges.length < views.length) for (const view of views.splice(0)) view.root.remove();
  const isNew = exchanges.length > views.length;
  for (const [index, exchange] of exchanges.entries()) viewOf(index, exchange).show(exchange);
  empty.hidden = exchanges.length > 0;
  connection.hidden = isConnected;
  stop.hidden = !isBusy;
  stop.disabled = exchanges.at(-1)?.taskId === undefined;
  send.hidden = isBusy;
  announce(exchanges.at(-1), isConnected);
  message.placeholder = exchanges.at(-1)?.questions.length ? 'Answer above' : 'Write a message';
  reading.isAtEnd ||= isNew;
  stayAtEnd();
}

function stayAtEnd(): void {
  if (reading.isAtEnd) log.scrollTop = log.scrollHeight;
}

function viewOf(index: number, exchange: Exchange): ExchangeView {
  const known = views[index];
  if (known) return known;
  const view = new ExchangeView(exchange, (id, answer) => {
    chat.answer(id, answer);
    message.focus();
  });
  views.push(view);
  log.append(view.root);
  return view;
}

/** The text for screen readers: whole answers and questions, never partial text. */
function announce(exchange: Exchange | undefined, isConnected: boolean): void {
  const words = exchange ? wordsOf(exchange) : '';
  const said = isConnected ? words : 'Connection lost. Reconnecting.';
  if (status.textContent !== said) status.textContent = said;
}

function wordsOf(exchange: Exchange): string {
  const { state, questions, pieces, failure } = exchange;
  if (failure !== undefined) return `Failed: ${failure}`;
  if (questions.length > 0) return questions.map(({ prompt, toolName }) => `Question: ${prompt ?? toolName}`).join(' ');
  if (!isOver(exchange)) return 'The agent is working.';
  if (state !== 'completed') return 'Stopped.';
  return `Agent: ${pieces.findLast((piece) => piece.type === 'text')?.text ?? 'done'}`;
}

function submit(): void {
  const text = message.value.trim();
  if (text === '' || chat.isBusy) return;
  message.value = '';
  growMessage();
  chat.say(text);
}

function growMessage(): void {
  message.style.height = 'auto';
  message.style.height = `${message.scrollHeight}px`;
}

log.addEventListener('scroll', () => {
  reading.isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
});
new ResizeObserver(stayAtEnd).observe(log);
composer.addEventListener('submit', (event) => {
  event.preventDefault();
  submit();
});
message.addEventListener('input', growMessage);
message.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && chat.isBusy) void chat.stop();
});
stop.addEventListener('click', () => {
  void chat.stop();
  message.focus();
});
byId('restart', HTMLButtonElement).addEventListener('click', () => {
  chat.restart();
  message.focus();
});
for (const text of suggestions) {
  const button = element('button', { type: 'button', className: 'quiet' }, text);
  button.addEventListener('click', () => {
    chat.say(text);
    message.focus();
  });
  byId('suggestions', HTMLUListElement).append(element('li', {}, button));
}
agentName().then(
  (name) => {
    byId('agent', HTMLHeadingElement).textContent = name;
    document.title = `Chat with ${name}`;
  },
  () => {},
);
render();
chat.resume();
