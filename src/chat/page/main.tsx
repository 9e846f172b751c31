import './page.css';
import { render } from 'preact';
import { App, type PageSettings } from './app.tsx';

const { api = '/api/chat', title = 'Chat', suggestions = '[]', accessKey } = document.body.dataset;
const settings: PageSettings = {
  api,
  title,
  suggestions: JSON.parse(suggestions),
  asksForKey: accessKey !== undefined,
};

render(<App {...settings} />, document.body);
