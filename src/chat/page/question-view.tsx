import { useLayoutEffect, useRef } from 'preact/hooks';
import type { ShownQuestion } from '../../ui/shown-steps.ts';
import { visibleText } from '../../ui/visible-text.ts';
import { Value } from './value-view.tsx';

export type Answer = (id: string, answer: unknown) => void;

/** A question with what answers it: buttons, or a field. Takes the focus where nobody writes. */
export function QuestionView({ question, answer }: { readonly question: ShownQuestion; readonly answer: Answer }) {
  const root = useRef<HTMLFieldSetElement>(null);
  useLayoutEffect(() => {
    const active = document.activeElement;
    const isWriting = active instanceof HTMLTextAreaElement ? active.value !== '' : active instanceof HTMLInputElement;
    if (isWriting || active?.closest('.question')) return;
    // Not a button: a key that was meant for something else must not approve.
    (root.current?.querySelector('input') ?? root.current)?.focus();
  }, []);
  const { id, kind, toolName, prompt, data } = question;
  const hasDetails = data !== undefined && kind !== 'input' && kind !== 'auth';
  return (
    <fieldset class="question" ref={root} tabIndex={-1} id={`question-${id}`}>
      <legend dir="auto">{visibleText(prompt ?? `${toolName ?? 'A tool'} waits for an answer.`)}</legend>
      {hasDetails && <Value label="Arguments" value={data} />}
      <div class="answers">
        <Answers question={question} give={(given) => answer(id, given)} />
      </div>
    </fieldset>
  );
}

function Answers({ question, give }: { readonly question: ShownQuestion; readonly give: (answer: unknown) => void }) {
  switch (question.kind) {
    case 'approval':
      return (
        <>
          <Choice label="Approve" isMain onChoose={() => give({ approved: true })} />
          <Choice label="Reject" onChoose={() => give({ approved: false, reason: 'The user said no.' })} />
        </>
      );
    case 'in-doubt':
      return (
        <>
          <Choice label="It took effect" onChoose={() => give({ outcome: 'applied', content: 'It took effect.' })} />
          <Choice label="It did not" onChoose={() => give({ outcome: 'not-applied' })} />
          <Choice label="Nobody knows" onChoose={() => give({ outcome: 'unknown' })} />
        </>
      );
    case 'client-tool':
      return <Field give={(text) => give({ result: text })} />;
    default: {
      const choices = choicesIn(question.data);
      if (choices.length === 0) return <Field give={give} isSecret={question.kind === 'auth'} />;
      return (
        <>
          {choices.map((each) => (
            <Choice key={each} label={each} onChoose={() => give(each)} />
          ))}
        </>
      );
    }
  }
}

interface ChoiceProps {
  readonly label: string;
  readonly isMain?: boolean;
  readonly onChoose: () => void;
}

function Choice({ label, isMain = false, onChoose }: ChoiceProps) {
  return (
    <button type="button" class={isMain ? 'main' : 'quiet'} onClick={onChoose}>
      {visibleText(label)}
    </button>
  );
}

const shown = { type: 'text' } as const;
const hidden = { type: 'password' } as const;

function Field({ give, isSecret = false }: { readonly give: (text: string) => void; readonly isSecret?: boolean }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <form
      class="field"
      onSubmit={(event) => {
        event.preventDefault();
        give(input.current?.value ?? '');
      }}
    >
      <input ref={input} {...(isSecret ? hidden : shown)} required aria-label="Your answer" autoComplete="off" />
      <button type="submit" class="main">
        Answer
      </button>
    </form>
  );
}

function choicesIn(data: unknown): readonly string[] {
  const { choices } = Object(data);
  return Array.isArray(choices) ? choices.filter((each) => typeof each === 'string').slice(0, 20) : [];
}
