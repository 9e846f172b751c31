import { element } from './element.ts';
import { pretty, type Question } from './exchange.ts';

export type Answer = (answer: unknown) => void;

/** A question with what answers it: buttons, or a field. */
export function questionView(question: Question, answer: Answer): HTMLElement {
  const id = `question-${question.id}`;
  return element(
    'fieldset',
    { className: 'question', id },
    element('legend', {}, question.prompt ?? `${question.toolName} waits for an answer`),
    ...details(question),
    element('div', { className: 'answers' }, ...answersTo(question, answer)),
  );
}

function details({ kind, toolName, data }: Question): readonly HTMLElement[] {
  if (data === undefined || kind === 'input' || kind === 'auth') return [];
  return [element('p', { className: 'tool-name' }, toolName), element('pre', { tabIndex: 0 }, pretty(data))];
}

function answersTo({ kind, data }: Question, answer: Answer): readonly HTMLElement[] {
  switch (kind) {
    case 'approval':
      return [
        choice('Approve', 'primary', () => answer({ approved: true })),
        choice('Reject', 'quiet', () => answer({ approved: false, reason: 'The user said no.' })),
      ];
    case 'in-doubt':
      return [
        choice('It took effect', 'quiet', () => answer({ outcome: 'applied', content: 'It took effect.' })),
        choice('It did not', 'quiet', () => answer({ outcome: 'not-applied' })),
        choice('Nobody knows', 'quiet', () => answer({ outcome: 'unknown' })),
      ];
    case 'client-tool':
      return [field((text) => answer({ result: text }))];
    case 'input':
    case 'auth': {
      const choices = choicesIn(data);
      return choices.length > 0 ? choices.map((each) => choice(each, 'quiet', () => answer(each))) : [field(answer)];
    }
  }
}

function choice(label: string, className: string, onClick: () => void): HTMLElement {
  const button = element('button', { type: 'button', className }, label);
  button.addEventListener('click', onClick, { once: true });
  return button;
}

function field(answer: (text: string) => void): HTMLElement {
  const input = element('input', { type: 'text', required: true, ariaLabel: 'Your answer', autocomplete: 'off' });
  const form = element('form', { className: 'field' }, input, element('button', { className: 'primary' }, 'Answer'));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    answer(input.value);
  });
  return form;
}

function choicesIn(data: unknown): readonly string[] {
  if (typeof data !== 'object' || data === null || !('choices' in data) || !Array.isArray(data.choices)) return [];
  return data.choices.filter((each) => typeof each === 'string');
}
