// Reads a page: its visible text in order, and its interactive elements. Evaluated by reading.py, which says what is
// interactive and why. Returns { url, title, lines: [{text} | {number, role, name, …}], elements }.
() => {
  const lines = [], elements = [], listening = window.__silvaListening;
  let text = '';
  const tidy = value => String(value ?? '').replace(/\s+/g, ' ').trim();
  const flush = () => { const said = tidy(text); if (said) lines.push({ text: said }); text = ''; };
  const shown = e => e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const NATIVE = 'a[href], button, input, select, textarea, summary';
  const ROLES = ['button', 'link', 'tab', 'checkbox', 'radio', 'menuitem', 'option', 'textbox', 'combobox', 'switch'];
  const listens = e => (listening && listening.has(e)) || e.onclick || e.onmousedown || e.onmouseup;
  const interactive = e => e !== document.body && (e.matches(NATIVE) || ROLES.includes(e.getAttribute('role'))
    || (e.isContentEditable && !e.parentElement?.isContentEditable) || listens(e) || e.hasAttribute('tabindex'));
  const inside = e => e.querySelector(NATIVE) !== null || [...e.querySelectorAll('*')].some(interactive);
  const role = e => {
    const said = e.getAttribute('role');
    if (said && !['presentation', 'none'].includes(said)) return said;
    const tag = e.tagName.toLowerCase();
    if (tag === 'a') return 'link';
    if (tag === 'button' || tag === 'summary') return 'button';
    if (tag === 'select') return e.multiple ? 'listbox' : 'combobox';
    if (tag === 'textarea' || e.isContentEditable) return 'textbox';
    if (tag === 'input') {
      if (['submit', 'button', 'reset', 'image'].includes(e.type)) return 'button';
      return { text: 'textbox', search: 'textbox', range: 'slider' }[e.type] ?? e.type;
    }
    return 'clickable';
  };
  // A label's words, without those of the field inside it.
  const label = e => {
    const words = e.cloneNode(true);
    for (const field of words.querySelectorAll('select, textarea, button')) field.remove();
    return words.textContent;
  };
  const name = (e, kind) => {
    const labelled = (e.getAttribute('aria-labelledby') ?? '').split(' ').map(id => document.getElementById(id)?.textContent);
    const field = e.matches('input, select, textarea');
    return tidy(e.getAttribute('aria-label')) || tidy(labelled.join(' '))
      || (field && e.labels ? tidy([...e.labels].map(label).join(' ')) : '')
      || (kind === 'button' && field ? tidy(e.value) : '') || (field ? '' : tidy(e.innerText ?? e.textContent))
      || tidy(e.getAttribute('placeholder')) || tidy(e.getAttribute('title')) || tidy(e.getAttribute('alt'))
      || tidy(e.querySelector('img[alt]')?.alt) || tidy(e.getAttribute('name')) || tidy(e.id)
      || tidy([...e.classList].join(' '));
  };
  const told = (e, kind = role(e)) => {
    const line = { number: elements.push(e), role: kind, name: name(e, kind).slice(0, kind === 'group' ? 60 : 200) };
    if (e.matches('input[type=checkbox], input[type=radio]')) line.checked = e.checked;
    else if (e.hasAttribute('aria-checked')) line.checked = e.getAttribute('aria-checked') === 'true';
    else if (e.matches('input, textarea') && kind !== 'button') line.value = e.value;
    else if (e.isContentEditable) line.value = tidy(e.innerText);
    if (e.tagName === 'SELECT') {
      line.options = [...e.options].map(o => tidy(o.text));
      line.value = [...e.selectedOptions].map(o => tidy(o.text)).join(', ');
    }
    if (e.hasAttribute('aria-selected')) line.selected = e.getAttribute('aria-selected') === 'true';
    if (e.hasAttribute('aria-expanded')) line.expanded = e.getAttribute('aria-expanded') === 'true';
    if (e.disabled) line.disabled = true;
    if (document.activeElement === e) line.focused = true;
    lines.push(line);
  };
  const walk = node => {
    if (node.nodeType === Node.TEXT_NODE) { text += node.data; return; }
    if (node.nodeType !== Node.ELEMENT_NODE || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE'].includes(node.tagName)) return;
    const style = getComputedStyle(node);
    if (style.display === 'none') return;
    const visible = shown(node) || style.display === 'contents';
    if (visible && interactive(node) && (node.matches(NATIVE) || !inside(node))) { flush(); told(node); return; }
    // What holds buttons may be clicked itself: it is told, and so is what it holds.
    if (visible && node !== document.body && listens(node) && !(node instanceof SVGElement)) { flush(); told(node, 'group'); }
    const block = !/^(inline|contents)/.test(style.display) && style.display !== 'table-cell';
    if (block || node.tagName === 'BR') flush();
    if (/^H[1-6]$/.test(node.tagName)) text += '# ';
    if (node.tagName === 'LI') text += '- ';
    if (node.tagName === 'IMG' && node.alt) text += ` (picture: ${node.alt}) `;
    // Something visible may lie inside what is not: a child with a visibility of its own.
    for (const child of node.childNodes) {
      if (child.nodeType === Node.TEXT_NODE && !visible) continue;
      walk(child);
    }
    if (style.display === 'table-cell' && node.nextElementSibling) text += ' | ';
    if (block) flush();
  };
  if (document.body) walk(document.body);
  flush();
  return { url: location.href, title: document.title, lines, elements };
}
