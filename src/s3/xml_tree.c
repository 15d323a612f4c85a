/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/xml_read.h"

#include "base/text.h"

#include <libxml/parser.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Everything of one tree lies in a chain of blocks, freed together. */
struct block {
    struct block *next;
    max_align_t bytes[];
};

struct xml_tree {
    struct xml_node *root;
    struct block *blocks;
    size_t nodes;
};

/* One open element. */
struct level {
    struct xml_node *node, *last_child;
};

struct building {
    struct xml_tree *tree;
    xmlParserCtxtPtr ctxt;
    struct level levels[LIMIT_XML_DEPTH_MAX];
    size_t depth;
    struct text text; /* character data of the innermost element */
    int failure;
    const char *fault;
};

static void *tree_alloc(struct xml_tree *tree, size_t size)
{
    struct block *block = calloc(1, sizeof *block + size);
    if (!block)
        return NULL;
    block->next = tree->blocks;
    tree->blocks = block;
    return block->bytes;
}

static const char *tree_copy(struct xml_tree *tree, const char *s, size_t len)
{
    char *copy = tree_alloc(tree, len + 1);
    if (copy && len)
        memcpy(copy, s, len);
    return copy;
}

void xml_tree_destroy(struct xml_tree *tree)
{
    if (!tree)
        return;
    while (tree->blocks) {
        struct block *block = tree->blocks;
        tree->blocks = block->next;
        free(block);
    }
    free(tree);
}

void xml_tree_destroyp(struct xml_tree **tree)
{
    xml_tree_destroy(*tree);
}

/* Callbacks: libxml2's convention is void, so the first fault is kept and the parser stopped */

static void building_fail(struct building *b, int code, const char *fault)
{
    if (b->failure)
        return;
    b->failure = code;
    b->fault = fault;
    xmlStopParser(b->ctxt);
}

static void on_dtd(void *arg, const xmlChar *name, const xmlChar *external, const xmlChar *system)
{
    building_fail(arg, S3R_E_MALFORMED_XML, "a document type is not allowed");
}

/* Text directly inside an element that also has children is only layout in S3's documents: a
 * child ends what was there before it. */
static void on_start(void *arg, const xmlChar *local_name, const xmlChar *prefix,
                     const xmlChar *uri, int namespaces, const xmlChar **namespace_list,
                     int attributes, int defaulted, const xmlChar **attribute_list)
{
    struct building *b = arg;
    if (b->failure)
        return;
    if (b->depth == LIMIT_XML_DEPTH_MAX || b->tree->nodes == LIMIT_XML_NODES_MAX) {
        building_fail(b, S3R_E_MALFORMED_XML, "it is nested too deeply or has too many elements");
        return;
    }
    struct xml_node *node = tree_alloc(b->tree, sizeof *node);
    const char *name =
        tree_copy(b->tree, (const char *)local_name, strlen((const char *)local_name));
    if (!node || !name) {
        building_fail(b, S3R_E_NOMEM, NULL);
        return;
    }
    *node = (struct xml_node){.name = name, .text = ""};
    b->tree->nodes++;
    text_reset(&b->text);
    if (b->depth == 0) {
        b->tree->root = node;
    } else {
        struct level *parent = &b->levels[b->depth - 1];
        if (parent->last_child)
            parent->last_child->next = node;
        else
            parent->node->child = node;
        parent->last_child = node;
    }
    b->levels[b->depth++] = (struct level){.node = node};
}

static void on_end(void *arg, const xmlChar *local_name, const xmlChar *prefix, const xmlChar *uri)
{
    struct building *b = arg;
    if (b->failure || b->depth == 0)
        return;
    struct xml_node *node = b->levels[--b->depth].node;
    if (!node->child && b->text.len) {
        node->text = tree_copy(b->tree, text_cstr(&b->text), b->text.len);
        if (!node->text || text_error(&b->text))
            building_fail(b, S3R_E_NOMEM, NULL);
    }
    text_reset(&b->text);
}

static void on_text(void *arg, const xmlChar *chars, int len)
{
    struct building *b = arg;
    if (!b->failure && len > 0)
        text_add(&b->text, chars, (size_t)len);
}

/* Faults are read from the context afterwards; nothing is printed. */
static void on_error(void *arg, xmlErrorPtr error)
{
}

/* A name that has no meaning, predefined entities excepted. */
static xmlEntityPtr on_entity(void *arg, const xmlChar *name)
{
    return xmlGetPredefinedEntity(name);
}

static int building_run(struct building *b, const void *bytes, size_t len, struct diag *diag)
{
    xmlCtxtUseOptions(b->ctxt, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    int rc = xmlParseChunk(b->ctxt, bytes, (int)len, 1);
    if (b->failure == S3R_E_NOMEM || rc == XML_ERR_NO_MEMORY)
        return S3R_E_NOMEM;
    if (b->failure)
        return diag_fail(diag, b->failure, "the XML body is refused: %s", b->fault);
    if (rc || !b->ctxt->wellFormed || !b->tree->root || b->depth)
        return diag_fail(diag, S3R_E_MALFORMED_XML, "the XML body is not well-formed");
    return 0;
}

/* libxml2 sets itself up with the first parser, and two at a time get in each other's way. */
static pthread_once_t libxml_once = PTHREAD_ONCE_INIT;

int xml_tree_parse(const void *bytes, size_t len, struct diag *diag, struct xml_tree **ret_tree)
{
    if (len == 0 || len > LIMIT_XML_REPLY_LEN_MAX)
        return diag_fail(diag, S3R_E_MALFORMED_XML,
                         "the XML body has %zu bytes; 1 to %llu are taken", len,
                         (unsigned long long)LIMIT_XML_REPLY_LEN_MAX);
    CLEANUP(xml_tree_destroyp) struct xml_tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return S3R_E_NOMEM;
    pthread_once(&libxml_once, xmlInitParser);
    xmlSAXHandler sax = {
        .initialized = XML_SAX2_MAGIC,
        .internalSubset = on_dtd,
        .externalSubset = on_dtd,
        .getEntity = on_entity,
        .startElementNs = on_start,
        .endElementNs = on_end,
        .characters = on_text,
        .cdataBlock = on_text,
        .serror = on_error,
    };
    struct building b = {.tree = tree};
    text_init(&b.text, LIMIT_XML_REPLY_LEN_MAX);
    b.ctxt = xmlCreatePushParserCtxt(&sax, &b, NULL, 0, NULL);
    if (!b.ctxt)
        return S3R_E_NOMEM;
    int rc = building_run(&b, bytes, len, diag);
    xmlFreeDoc(b.ctxt->myDoc);
    b.ctxt->myDoc = NULL;
    xmlFreeParserCtxt(b.ctxt);
    text_fini(&b.text);
    if (rc == 0)
        *ret_tree = STEAL(tree);
    return rc;
}

const struct xml_node *xml_tree_root(const struct xml_tree *tree)
{
    return tree->root;
}

static const struct xml_node *find(const struct xml_node *from, const char *name)
{
    while (from && strcmp(from->name, name) != 0)
        from = from->next;
    return from;
}

const struct xml_node *xml_child(const struct xml_node *node, const char *name)
{
    return find(node->child, name);
}

const struct xml_node *xml_next(const struct xml_node *after, const char *name)
{
    return find(after->next, name);
}

const char *xml_child_text(const struct xml_node *node, const char *name)
{
    const struct xml_node *child = xml_child(node, name);
    return child ? child->text : NULL;
}
