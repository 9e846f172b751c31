import { element } from './element.ts';
import { type Exchange, isOver, type Piece, type ToolState } from './exchange.ts';
import { type Answer, questionView } from './question-view.ts';

/** The element of one exchange. What did not change is not touched, so that focus, selection and fields stay. */
export class ExchangeView {
  readonly root: HTMLElement;
  readonly #answer: (questionId: string, answer: unknown) => void;
  readonly #pieces = element('div', { className: 'pieces' });
  readonly #questions = element('div', { className: 'questions' });
  readonly #end = element('p', { className: 'end', hidden: true });
  readonly #waiting = element(
    'p',
    { className: 'dots', ariaHidden: 'true' },
    element('span'),
    element('span'),
    element('span'),
  );
  readonly #shown = new Map<string, { piece: Piece; view: HTMLElement }>();
  readonly #asked = new Map<string, HTMLElement>();

  constructor({ said }: Exchange, answer: (questionId: string, answer: unknown) => void) {
    this.#answer = answer;
    this.root = element(
      'article',
      {},
      element('div', { className: 'said' }, element('span', { className: 'visually-hidden' }, 'You: '), said),
      element(
        'div',
        { className: 'answer' },
        element('span', { className: 'visually-hidden' }, 'Agent: '),
        this.#pieces,
        this.#questions,
        this.#waiting,
        this.#end,
      ),
    );
  }

  show(exchange: Exchange): void {
    for (const [index, piece] of exchange.pieces.entries()) this.#showPiece(piece, exchange.pieces[index - 1]);
    this.#showQuestions(exchange);
    const { state, failure } = exchange;
    this.#waiting.hidden = isOver(exchange) || exchange.questions.length > 0;
    this.#end.hidden = failure === undefined && state !== 'canceled';
    this.#end.className = failure === undefined ? 'end' : 'end failure';
    this.#end.textContent = failure ?? 'Stopped.';
  }

  #showPiece(piece: Piece, previous: Piece | undefined): void {
    const key = keyOf(piece);
    const known = this.#shown.get(key);
    const before = previous && this.#shown.get(keyOf(previous))?.view;
    if (known?.piece === piece) return;
    if (known?.piece.type === 'text' && piece.type === 'text') {
      showText(known.view, known.piece.text, piece.text);
      known.piece = piece;
      return;
    }
    const view = pieceView(piece);
    if (known) known.view.replaceWith(view);
    else if (before) before.after(view);
    else this.#pieces.append(view);
    this.#shown.set(key, { piece, view });
  }

  #showQuestions({ questions }: Exchange): void {
    for (const [id, view] of this.#asked) {
      if (questions.some((question) => question.id === id)) continue;
      view.remove();
      this.#asked.delete(id);
    }
    for (const question of questions) {
      if (this.#asked.has(question.id)) continue;
      const answer: Answer = (given) => this.#answer(question.id, given);
      const view = questionView(question, answer);
      this.#asked.set(question.id, view);
      this.#questions.append(view);
    }
  }
}

function keyOf(piece: Piece): string {
  return piece.type === 'tool' ? `tool ${piece.callId}` : piece.artifactId;
}

/** Appends only the new part of a growing text. */
function showText(view: HTMLElement, before: string, now: string): void {
  if (now.startsWith(before)) view.append(now.slice(before.length));
  else view.textContent = now;
}

function pieceView(piece: Piece): HTMLElement {
  switch (piece.type) {
    case 'text':
      return element('p', { className: 'text' }, piece.text);
    case 'artifact':
      return element('figure', {}, element('figcaption', {}, piece.name), element('pre', { tabIndex: 0 }, piece.text));
    case 'tool':
      return toolView(piece);
  }
}

const toolWords: Readonly<Record<ToolState, string>> = {
  running: 'runs',
  waiting: 'waits',
  done: 'done',
  failed: 'failed',
  stopped: 'stopped',
  rejected: 'rejected',
  unknown: 'may or may not have taken effect',
};

function toolView({ name, agents = [], state, durationMs }: Extract<Piece, { type: 'tool' }>): HTMLElement {
  const took = durationMs === undefined || durationMs < 50 ? '' : ` · ${(durationMs / 1000).toFixed(1)} s`;
  const view = element(
    'p',
    { className: `tool ${state}` },
    element('span', { className: 'mark', ariaHidden: 'true' }),
    ...(agents.length > 0 ? [element('span', { className: 'agents' }, agents.join(' › '))] : []),
    element('code', {}, name),
    element('span', { className: 'tool-state' }, `${toolWords[state]}${took}`),
  );
  view.style.marginInlineStart = `${agents.length * 1.5}em`;
  return view;
}
