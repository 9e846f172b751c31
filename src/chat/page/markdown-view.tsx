import { type ComponentChild, h } from 'preact';
import { useMemo } from 'preact/hooks';
import { CopyButton } from './copy-button.tsx';
import { type MarkElement, type MarkNode, markdownOf } from './markdown.ts';

/** Text of a model: elements, never HTML. */
export function Markdown({ text }: { readonly text: string }) {
  return useMemo(
    () => (
      <div class="markdown" dir="auto">
        {nodes(markdownOf(text))}
      </div>
    ),
    [text],
  );
}

function nodes(children: readonly MarkNode[]): ComponentChild[] {
  return children.map((node) => (typeof node === 'string' ? node : view(node)));
}

function view(element: MarkElement): ComponentChild {
  const { tag, children, href = '', language = '', start, align, checked } = element;
  switch (tag) {
    case 'pre':
      return <CodeBlock text={children.join('')} language={language} />;
    case 'a':
      return (
        <a href={href} target="_blank" rel="noopener noreferrer nofollow" title={href}>
          {nodes(children)}
        </a>
      );
    case 'table':
      return (
        <section class="table" tabIndex={0} aria-label="Table">
          <table>{nodes(children)}</table>
        </section>
      );
    case 'input':
      return <input type="checkbox" checked={checked === true} disabled aria-label={checked ? 'Done' : 'Not done'} />;
    case 'br':
    case 'hr':
      return h(tag, {});
    default:
      return h(
        tag,
        { ...(start !== undefined && { start }), ...(align !== undefined && { class: `to-${align}` }) },
        nodes(children),
      );
  }
}

function CodeBlock({ text, language }: { readonly text: string; readonly language: string }) {
  return (
    <figure class="code">
      <figcaption>
        <span>{language || 'text'}</span>
        <CopyButton text={() => text} label="Copy code" />
      </figcaption>
      <pre tabIndex={0} dir="ltr">
        <code>{text}</code>
      </pre>
    </figure>
  );
}
