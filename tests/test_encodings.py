"""Files that are not UTF-8: their encoding is detected and preserved."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import Run, succeeded, write
from made_secrets import made
from memvault import Vault, open_vault
from memvault.errors import Refused, VaultUnreadable
from memvault.settings.vault_settings import load_settings
from memvault.vault import decoding, document

NOTES = {
    "gbk": [
        "数据库连接失败，请检查配置。",
        "待办事项\n- [ ] 买牛奶",
        "Redis 缓存 TTL 设置为 60 秒",
    ],
    "gb18030": ["会议记录：𠮷野家 test", "# 标题\n\n这是一个测试文档。"],
    "shift_jis": [
        "さくらが咲いた。",
        "会議の議事録",
        "データベースのバックアップ",
        "- [ ] 牛乳を買う",
    ],
    "euc_kr": ["데이터베이스 백업", "회의록", "# 제목\n\n테스트 문서입니다.", "할 일: 우유 사기"],
    "cp1251": ["Резервная копия", "Привет, мир!", "Список покупок: хлеб", "Київ та Львів, їжа"],
    "koi8_r": ["Резервная копия базы", "Список покупок: хлеб, молоко"],
    "big5": ["資料庫連線失敗，請檢查設定。", "待辦事項"],
    "euc_jp": ["さくらが咲いた。", "データベースのバックアップを取る"],
    "iso2022_jp": ["会議の議事録", "# さくら\n\nが咲いた。"],
    "cp1252": [
        "Voilà une façade",
        "naïve",
        "“Zürich” – 10 €",
        "El niño comió",
        "il va à Rome",
        "50 °C",
        "# Café\nnaïve résumé €",
        "Pokémon naïve “résumé”",
        "mãe",
        "goût",
    ],
    "cp1250": ["Žižkov", "Zażółć gęślą jaźń", "Příliš žluťoučký kůň"],
    "cp1253": ["Καλημέρα κόσμε"],
    "cp1254": ["İstanbul", "Şişli ağaç"],
    "cp1255": ["שלום עולם"],
    "cp1256": ["مرحبا بالعالم"],
    "cp874": ["สวัสดีชาวโลก"],
}
CASES = [(encoding, text) for encoding, texts in NOTES.items() for text in texts]


@pytest.mark.promise("R98")
@pytest.mark.parametrize(("encoding", "text"), CASES)
def test_encoding_is_detected(encoding: str, text: str) -> None:
    """A short note in one script is decoded correctly, with its line endings and header."""
    for body in (
        text,
        f"---\ntitle: x\n---\n\n{text}\r\n",
        f"Some English first.\n\n{text}\n" * 40,
    ):
        assert decoding.decode(body.encode(encoding)).text == body


DAMAGED = [
    ("Café in Zürich, “quoted” 日本\n".encode() * 5 + b"\xe9 x\n", "\ufffd x\n"),
    ("Привет, мир".encode()[:-1], "ми\ufffd"),
    ("日本語のメモ".encode()[:-1], "メ\ufffd"),
    ("Café ".encode() + b"\xe9", "Café \ufffd"),
    ("é \ufffd naïve ".encode() + b"\xff.", "é \ufffd naïve \ufffd."),
]


@pytest.mark.promise("R98")
@pytest.mark.parametrize(("data", "end"), DAMAGED)
def test_encoding_of_damaged_utf8_stays_utf8(folder: Path, run: Run, data: bytes, end: str) -> None:
    """An invalid byte or truncated character affects only itself, and edits preserve it."""
    assert decoding.decode(data).text.endswith(end)
    file = write(folder, "n.md", data)
    assert "has bytes that are not UTF-8" in run("doctor", "--json").out
    succeeded(run("tag", "add", "n.md", "b"))
    assert data in file.read_bytes()


@pytest.mark.promise("R98")
def test_notes_in_legacy_encodings_are_recalled(vault: Vault, folder: Path) -> None:
    """Recall finds such notes, links and tags work, and doctor reports the detected encoding."""
    words = {"gbk": "数据库", "shift_jis": "さくら", "cp1251": "Резервная", "euc_kr": "백업"}
    for encoding, word in words.items():
        text = f"# {NOTES[encoding][0]}\n\n#{word} [[{word}x]]\n"
        write(folder, f"{encoding}.md", text.encode(encoding))
    for encoding, word in words.items():
        (first, *_) = vault.call("memory_recall", query=word, limit=1)["memories"]
        assert first["filePath"] == f"{encoding}.md"
        assert vault.call("memory_show", name=first["filePath"])["tags"] == [word]
        assert vault.call("memory_links", name=first["filePath"])["links"][0]["link"] == f"{word}x"


@pytest.mark.promise("R98")
@pytest.mark.parametrize("encoding", ["gbk", "shift_jis", "euc_kr", "cp1251", "cp1252"])
def test_encoding_is_kept_by_edits(folder: Path, run: Run, encoding: str) -> None:
    """Added text uses the file's encoding; a character it can't represent is refused."""
    text = f"---\ntags: [a]\n---\n\n{NOTES[encoding][0]}\n"
    file = write(folder, "n.md", text.encode(encoding))
    succeeded(run("compound", "n.md", NOTES[encoding][0]))
    succeeded(run("tag", "add", "n.md", "b"))
    expected = text.replace("[a]", "[a, b]") + f"\n{NOTES[encoding][0]}\n"
    assert file.read_bytes() == expected.encode(encoding)
    if encoding == "gbk":
        return  # GB18030, the detected encoding, has every character
    said = run("compound", "n.md", "🐝")
    assert said.code == 1
    assert "has no '🐝'" in said.err
    assert "iconv -f" in said.err
    assert file.read_bytes() == expected.encode(encoding)


@pytest.mark.promise("R98")
def test_encoding_can_be_set(folder: Path) -> None:
    """Non-UTF-8 files use the configured encoding, even with an old index, without detection."""
    word = "備"  # two bytes fit many encodings
    write(folder, "n.md", f"# {word}".encode("big5"))
    write(folder, "u.md", f"# {word}{word}\n")
    with open_vault(folder) as vault:
        assert vault.call("memory_show", name="n.md")["title"] != word
    write(folder, "memvault.toml", 'version = 1\nencoding = "big5"\n')
    with open_vault(folder) as vault:
        listed = vault.call("memory_list")["memories"]
        assert {entry["title"] for entry in listed} == {word, word * 2}
        assert not [entry for entry in listed if "problem" in entry]
        vault.call("memory_compound", query="n.md", modifications=word)
        assert (folder / "n.md").read_bytes().decode("big5").count(word) == 2
    write(folder, "memvault.toml", 'version = 1\nencoding = "klingon"\n')
    with pytest.raises(VaultUnreadable, match="encoding must be auto, or"):
        load_settings(folder)


@pytest.mark.promise("R98")
def test_encoding_setting_applies_to_secrets_and_diffs(folder: Path, run: Run) -> None:
    """Secrets in a file in the configured encoding are found, and its diff is decoded correctly."""
    token = made("GitHub token")[0]
    file = write(folder, "n.md", "# 門\n\n門長\n".encode("gbk"))
    settings = 'version = 1\nencoding = "gbk"\n'
    write(folder, "memvault.toml", f'{settings}[secrets]\non_write = "refuse"\n')
    said = run("compound", "n.md", f"門{token}")  # 門 ends with the byte of a T
    assert (said.code, token in said.err, "secret" in said.err) == (1, False, True)
    succeeded(run("compound", "n.md", "門口"))
    assert "+門口" in run("diff", "n.md").out
    write(folder, "memvault.toml", settings)
    assert "secret" in run("compound", "n.md", f"門{token}").err
    assert token.encode() in file.read_bytes()
    assert "secret-in-text" in run("doctor", "--json").out


@pytest.mark.promise("R98")
@example(b"\x87\x90\x82\xa0\n")  # a character with two codes in cp932
@example(b"\xd6\xd0\x80\n")
@given(st.binary(max_size=60).filter(lambda data: not data.isascii()))
def test_encoding_edits_preserve_other_bytes(data: bytes) -> None:
    """In any detected encoding, an edit preserves all other bytes or is refused."""
    file = b"---\ntitle: a\n---\n" + data
    try:
        edited = document.edit(file, {"title": "b"}, None)
    except Refused:
        return
    assert edited == b"---\ntitle: b\n---\n" + data
