import { useState } from 'preact/hooks';
import type { InspectInfo, ShownQuestion, TaskDetail } from '../wire.ts';
import { post, taskPath } from './api.ts';
import { moment } from './format.ts';
import { Json } from './json.tsx';
import { Button, Fault, State } from './parts.tsx';
import { linkTo } from './place.ts';

const meanings = {
  approval: 'needs approval',
  'in-doubt': 'was cut off: did it take effect?',
  'client-tool': 'has to be run by you',
  input: 'asks',
  auth: 'asks for credentials',
} as const;

interface QuestionsProps {
  readonly questions: readonly ShownQuestion[];
  readonly detail: TaskDetail;
  readonly info: InspectInfo;
  readonly onDone: () => void;
}

export function Questions({ questions, detail, info, onDone }: QuestionsProps) {
  if (questions.length === 0) return <p class="hint">The turn asked nothing.</p>;
  return (
    <>
      {questions.map((shown) => (
        <Card key={`${shown.question.id} ${shown.seq}`} shown={shown} detail={detail} info={info} onDone={onDone} />
      ))}
    </>
  );
}

function Card({ shown, detail, info, onDone }: Omit<QuestionsProps, 'questions'> & { readonly shown: ShownQuestion }) {
  const { asking, question, answered, isOpen, at } = shown;
  const { parent } = detail;
  return (
    <article class="card question">
      <div class="line">
        <h2>
          {asking.toolName} <span class="dim">{meanings[asking.kind]}</span>
        </h2>
        <State state={isOpen ? 'input-required' : answered ? 'done' : 'interrupted'} />
      </div>
      <p class="about">
        <code>{question.id}</code>
        <span>asked {moment(at)}</span>
        {question.child && <a href={linkTo(['task', question.child.taskId])}>asked by a sub-agent</a>}
      </p>
      {asking.prompt !== undefined && <p class="prose">{asking.prompt}</p>}
      {asking.data !== undefined && <Json value={asking.data} open={2} />}
      {answered && (
        <div class="answered">
          <p class="about">
            <span>answered {moment(answered.at)}</span>
            <span>
              {answered.command === undefined ? 'with a resume of the turn' : `by command ${answered.command}`}
            </span>
          </p>
          <Json value={answered.answer} open={2} />
        </div>
      )}
      {isOpen && parent && (
        <p class="hint">
          It is answered at <a href={linkTo(['task', parent.rootTaskId])}>the turn at the top</a>.
        </p>
      )}
      {isOpen && !parent && !info.write && <p class="hint">Start the inspector with --write to answer here.</p>}
      {isOpen && !parent && info.write && <Form taskId={detail.summary.taskId} shown={shown} onDone={onDone} />}
    </article>
  );
}

interface FormProps {
  readonly taskId: string;
  readonly shown: ShownQuestion;
  readonly onDone: () => void;
}

function Form({ taskId, shown: { question, asking }, onDone }: FormProps) {
  const [text, setText] = useState('');
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const give = async (make: () => unknown) => {
    setBusy(true);
    try {
      await post(`${taskPath(taskId)}/answer`, { answers: { [question.id]: make() } });
      setError(undefined);
      onDone();
    } catch (thrown) {
      setError(thrown);
    }
    setBusy(false);
  };
  const button = (label: string, make: () => unknown, tone = 'main') => (
    <Button class={tone} disabled={isBusy} onClick={() => void give(make)}>
      {label}
    </Button>
  );
  const choices = choicesIn(asking.data);
  const isText = asking.kind === 'input' || asking.kind === 'auth';
  const reason = text.trim() === '' ? {} : { reason: text };
  const label = {
    approval: 'Reason',
    'in-doubt': 'Its result, if it took effect',
    'client-tool': 'Result, as JSON',
    input: 'Answer',
    auth: 'Answer',
  };
  return (
    <form
      class="answer"
      onSubmit={(event) => {
        event.preventDefault();
        if (isText) void give(() => text);
      }}
    >
      <Field label={label[asking.kind]} isSecret={asking.kind === 'auth'} value={text} onText={setText} />
      <div class="buttons">
        {asking.kind === 'approval' && button('Reject', () => ({ approved: false, ...reason }), 'bad')}
        {asking.kind === 'approval' && button('Approve', () => ({ approved: true, ...reason }))}
        {asking.kind === 'in-doubt' && button('Not known', () => ({ outcome: 'unknown' }), '')}
        {asking.kind === 'in-doubt' && button('Took no effect', () => ({ outcome: 'not-applied' }), '')}
        {asking.kind === 'in-doubt' && button('Took effect', () => ({ outcome: 'applied', content: text }))}
        {asking.kind === 'client-tool' && button('Failed', () => ({ error: text }), 'bad')}
        {asking.kind === 'client-tool' && button('Send result', () => ({ result: JSON.parse(text) }))}
        {isText && choices.map((choice) => button(choice, () => choice, ''))}
        {isText && button('Send as JSON', () => JSON.parse(text), 'quiet')}
        {isText && button('Send', () => text)}
      </div>
      <Fault error={error} />
    </form>
  );
}

interface FieldProps {
  readonly label: string;
  readonly isSecret: boolean;
  readonly value: string;
  readonly onText: (text: string) => void;
}

function Field({ label, isSecret, value, onText }: FieldProps) {
  const common = {
    autocomplete: 'off',
    value,
    onInput: ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) => onText(currentTarget.value),
  } as const;
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: it has one of the two
    <label>
      {label}
      {isSecret ? <input type="password" {...common} /> : <input type="text" {...common} />}
    </label>
  );
}

function choicesIn(data: unknown): readonly string[] {
  const choices: unknown = typeof data === 'object' && data !== null ? Reflect.get(data, 'choices') : undefined;
  return Array.isArray(choices) ? choices.filter((choice) => typeof choice === 'string').slice(0, 12) : [];
}
